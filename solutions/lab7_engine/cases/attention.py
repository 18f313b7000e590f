"""Cases of Qwen3Attention on block tables: whole texts, cut into calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config
from solutions.reference import oracle

Weights = dict[str, torch.Tensor]

# hidden, heads, kv heads, head_dim, tokens in a block
SIZES = (
    (44, 6, 2, 16, 4),
    (56, 9, 3, 10, 5),
    (36, 10, 2, 12, 3),
    (60, 12, 4, 8, 6),
)
# New tokens of each sequence in each call: prompts in chunks beside texts that grow; one ends, one
# comes later. 0: the sequence has no part in the call.
CALLS = (
    ((5, 0, 3), (1, 4, 1), (0, 3, 1), (1, 1, 6)),
    ((2, 6, 0), (1, 1, 5), (4, 0, 1), (1, 1, 1)),
    ((0, 7, 2), (3, 1, 1), (1, 0, 4), (1, 1, 1)),
    ((4, 1, 0), (1, 5, 7), (1, 1, 1), (0, 6, 1)),
)


def _config(draw: Draw, **other: Any) -> tuple[Qwen3Config, int]:
    hidden, heads, kv_heads, head_dim, block = draw.pick(SIZES)
    made = Qwen3Config(
        vocab_size=97, intermediate_size=72, num_hidden_layers=1, hidden_size=hidden,
        num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
        rope_theta=draw.pick((5e5, 1e6, 2e5)), **other,
    )  # fmt: skip
    return made, block


def _weights(draw: Draw, c: Qwen3Config, *alike: str) -> Weights:
    """Weights by the names of Hugging Face; those named have equal kv heads."""
    query, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    fan_in = c.hidden_size**-0.5
    weights = {
        "q_proj.weight": draw.normal(query, c.hidden_size, scale=fan_in),
        "k_proj.weight": draw.normal(kv, c.hidden_size, scale=fan_in),
        "v_proj.weight": draw.normal(kv, c.hidden_size, scale=fan_in),
        "o_proj.weight": draw.normal(c.hidden_size, query, scale=query**-0.5),
        "q_norm.weight": draw.uniform(c.head_dim, low=0.4, high=2.2),
        "k_norm.weight": draw.uniform(c.head_dim, low=0.4, high=2.2),
    }
    for name in alike:
        weights[name] = weights[name][: c.head_dim].repeat(c.num_key_value_heads, 1)
    return weights


def _drafted(
    draw: Draw,
    calls: Sequence[Sequence[int]],
    en: str = "",
    zh: str = "",
    *,
    alike: Sequence[str] = (),
    firsts: Sequence[int] = (0, 0, 0),
    step: int = 1,
    scale: float = 1.0,
    dtype: str = "float32",
    **config: Any,
) -> Draft:
    """Texts of several sequences, tensors ``x.i``, ``y.i`` and ``p.i`` for each."""
    c, block = _config(draw, **config)
    weights = {n: w.to(getattr(torch, dtype)) for n, w in _weights(draw, c, *alike).items()}
    tensors = {f"w.{name}": weight for name, weight in weights.items()}
    lengths = [sum(counts) for counts in zip(*calls, strict=True)]
    for i, (length, first) in enumerate(zip(lengths, firsts, strict=False)):
        x = draw.normal(length, c.hidden_size, scale=scale).to(getattr(torch, dtype))
        positions = first + step * torch.arange(length)
        y = oracle.attention(c, weights, x[None], None, positions)[0]
        tensors |= {f"x.{i}": x, f"y.{i}": y, f"p.{i}": positions}
    listed = " | ".join(", ".join(map(str, counts)) for counts in calls)
    about = Text(
        f"{en}{c.num_attention_heads} heads, {c.num_key_value_heads} kv heads of {c.head_dim}, "
        f"hidden {c.hidden_size}, blocks of {block}, new tokens {listed}",
        f"{zh}{c.num_attention_heads} 个头，{c.num_key_value_heads} 个键值头，head_dim "
        f"{c.head_dim}，hidden {c.hidden_size}，每块 {block} 个 token，新 token 数 {listed}",
    )
    blocks = sum(-(-length // block) for length in lengths) + 2
    values = {"calls": [list(counts) for counts in calls], "block": block, "blocks": blocks}
    return draft(about, tensors, asdict(c), **values, dtype=dtype)


def _prompts(draw: Draw) -> list[tuple[int, ...]]:
    """All prompts whole, in one call."""
    return [tuple(map(sum, zip(*draw.pick(CALLS), strict=True)))]


@recipe()
def attention_prompts(draw: Draw) -> Draft:
    return _drafted(draw, _prompts(draw))


@recipe()
def attention_token(draw: Draw) -> Draft:
    """Sequences of one token: values, heads and o_proj, whatever the rest does."""
    return _drafted(draw, [(1, 1, 1)], scale=5.0)


@recipe()
def attention_unrotated(draw: Draw) -> Draft:
    """All at position 0, equal kv heads: norms without rotation."""
    en, zh = "all positions 0, equal kv heads, ", "位置全为 0，键值头相同，"
    alike = "k_proj.weight", "v_proj.weight"
    return _drafted(draw, _prompts(draw), en, zh, alike=alike, step=0)


@recipe()
def attention_tiny(draw: Draw) -> Draft:
    """Inputs of 1e-2 and an eps of 3e-4: eps decides the size of q and k."""
    en, zh = "tiny inputs, eps 3e-4, ", "输入很小，eps 3e-4，"
    return _drafted(draw, _prompts(draw), en, zh, scale=1e-2, rms_norm_eps=3e-4)


@recipe()
def attention_placed(draw: Draw) -> Draft:
    """Every second position, not from 0: whoever counts tokens gets other distances.

    Those of the third are odd and above 2048: neither bfloat16 nor float16 knows them.
    """
    firsts = (draw.integer(5, 9), 0, 2 * draw.integer(1040, 1090) + 1)
    en, zh = "every second position, ", "每隔一个位置，"
    return _drafted(draw, draw.pick(CALLS), en, zh, firsts=firsts, step=2)


@recipe(hidden=2)
def attention_calls(draw: Draw) -> Draft:
    """Chunks of prompts beside texts that grow."""
    return _drafted(draw, draw.pick(CALLS))


@recipe()
def attention_bfloat16(draw: Draw) -> Draft:
    return _drafted(draw, draw.pick(CALLS), "bfloat16, ", "bfloat16，", dtype="bfloat16")


@recipe()
def attention_forked(draw: Draw) -> Draft:
    """Two texts with the same beginning, which ends within a block."""
    c, block = _config(draw)
    weights = _weights(draw, c)
    begun, more = block + 2, block
    start = draw.normal(begun, c.hidden_size)
    tensors = {f"w.{name}": weight for name, weight in weights.items()}
    positions = torch.arange(begun + more)
    for i in range(2):
        x = torch.cat((start, draw.normal(more, c.hidden_size)))
        y = oracle.attention(c, weights, x[None], None, positions)[0]
        tensors |= {f"x.{i}": x[begun:] if i else x, f"y.{i}": y}
    tensors["positions"] = positions
    about = Text(
        f"{begun} tokens, then two ways on of {more} tokens, blocks of {block}",
        f"先是 {begun} 个 token，然后两种后续各 {more} 个 token，每块 {block} 个 token",
    )
    values = {"begun": begun, "block": block, "blocks": 2 * (2 + more // block) + 2}
    return draft(about, tensors, asdict(c), **values)

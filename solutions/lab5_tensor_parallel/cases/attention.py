"""Cases of Qwen3Attention: on one rank, blind to what other families get wrong, and on several."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config
from solutions.reference import oracle_parallel

from .sizes import (
    RANK_SIZES,
    RANKS,
    SIZES,
    WIDE_SIZES,
    Weights,
    about_sizes,
    alike,
    attention_weights,
    config_of,
    flat,
    prefixed,
)

Lengths = tuple[int, ...]


def _drafted(
    draw: Draw,
    config: Qwen3Config,
    lengths: Lengths,
    about: Text,
    weights: Weights,
    *,
    x: torch.Tensor | None = None,
    firsts: Lengths = (),
    ranks: tuple[int, ...] = (),
    **values: Any,
) -> Draft:
    x = draw.normal(sum(lengths), config.hidden_size) if x is None else x
    tokens = flat(lengths, firsts)
    y = oracle_parallel.attention(config, weights, x, tokens["positions"], tokens["cu"])
    own = oracle_parallel.attention_shard(config, weights, 0, 1)
    tensors = {"x": x, "y": y, **tokens, **prefixed(own)}
    for world in ranks:
        for rank in range(world):
            shard = oracle_parallel.attention_shard(config, weights, rank, world)
            tensors |= prefixed(shard, f"{world}.{rank}.")
    return draft(about, tensors, asdict(config), **values)


def _sizes(draw: Draw) -> tuple[Qwen3Config, Lengths]:
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(SIZES)
    return config_of(hidden, heads, kv_heads, head_dim), lengths


@recipe()
def attention_core(draw: Draw) -> Draft:
    config, lengths = _sizes(draw)
    weights = attention_weights(draw, config)
    return _drafted(draw, config, lengths, about_sizes(config, lengths), weights)


@recipe()
def attention_token(draw: Draw) -> Draft:
    """Sequences of one token, equal kv heads: values and o_proj, whatever the rest does."""
    config, lengths = _sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    ones = (1,) * len(lengths)
    about = about_sizes(config, ones, "equal kv heads: ", "键值头相同：")
    return _drafted(draw, config, ones, about, weights)


@recipe()
def attention_token_heads(draw: Draw) -> Draft:
    """Sequences of one token, kv heads that differ: which query head gets which values."""
    config, lengths = _sizes(draw)
    ones = (1,) * len(lengths)
    about = about_sizes(config, ones)
    return _drafted(draw, config, ones, about, attention_weights(draw, config))


@recipe()
def attention_unrotated(draw: Draw) -> Draft:
    """All at position 0, equal kv heads: norms, scale and softmax without rotation."""
    config, lengths = _sizes(draw)
    weights = alike(attention_weights(draw, config), config, "k_proj.weight", "v_proj.weight")
    about = about_sizes(config, lengths, "all positions 0: ", "位置全为 0：")
    made = _drafted(draw, config, lengths, about, weights)
    x, cu = made.tensors["x"], made.tensors["cu"]
    zeros = torch.zeros(sum(lengths), dtype=torch.int64)
    y = oracle_parallel.attention(config, weights, x, zeros, cu)
    return draft(about, {**made.tensors, "positions": zeros, "y": y}, made.config)


@recipe()
def attention_placed(draw: Draw) -> Draft:
    """Sequences that go on from a place of their own; their distances alone would not tell."""
    config, lengths = _sizes(draw)
    weights = attention_weights(draw, config)
    # Every second position: whoever counts tokens instead gets other distances.
    about = about_sizes(config, lengths, "every second position: ", "每隔一个位置：")
    made = _drafted(draw, config, lengths, about, weights)
    x, cu, positions = (made.tensors[name] for name in ("x", "cu", "positions"))
    positions = 2 * positions + draw.integer(5, 9)
    y = oracle_parallel.attention(config, weights, x, positions, cu)
    return draft(about, {**made.tensors, "positions": positions, "y": y}, made.config)


@recipe()
def attention_tiny(draw: Draw) -> Draft:
    """Inputs of 1e-2 and an eps of 3e-4: eps decides the size of q and k."""
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim, rms_norm_eps=3e-4)
    x = draw.normal(sum(lengths), hidden, scale=1e-2)
    about = about_sizes(config, lengths, "tiny inputs, eps 3e-4: ", "输入很小，eps 3e-4：")
    return _drafted(draw, config, lengths, about, attention_weights(draw, config), x=x)


@recipe()
def attention_bfloat16(draw: Draw) -> Draft:
    config, lengths = _sizes(draw)
    weights = {n: w.bfloat16() for n, w in attention_weights(draw, config).items()}
    x = draw.normal(sum(lengths), config.hidden_size).bfloat16()
    about = about_sizes(config, lengths, "bfloat16: ", "bfloat16：")
    return _drafted(draw, config, lengths, about, weights, x=x, dtype="bfloat16")


@recipe()
def attention_own(draw: Draw) -> Draft:
    """On 2 and 4 ranks, each with kv heads of its own."""
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(WIDE_SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim)
    about = about_sizes(config, lengths)
    return _drafted(draw, config, lengths, about, attention_weights(draw, config), ranks=RANKS)


@recipe()
def attention_shared(draw: Draw) -> Draft:
    """On 4 ranks that share 2 kv heads."""
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(RANK_SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim)
    about = about_sizes(config, lengths, "4 ranks, 2 kv heads: ", "4 个 rank，2 个键值头：")
    return _drafted(draw, config, lengths, about, attention_weights(draw, config), ranks=(4,))

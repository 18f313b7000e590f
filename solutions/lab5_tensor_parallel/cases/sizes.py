"""Sizes, weights and flat tokens that the cases share."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draw
from labs.given.config import Qwen3Config

Weights = dict[str, torch.Tensor]
RANKS = (2, 4)

# hidden, heads, kv heads, head_dim, lengths of the sequences: for one rank
SIZES = (
    (44, 6, 2, 16, (3, 7, 1)),
    (56, 9, 3, 10, (1, 5, 2, 4)),
    (36, 10, 2, 12, (6, 3)),
    (60, 12, 4, 8, (4, 1, 8)),
)
# The same for 2 and 4 ranks: with 2 kv heads, 4 ranks share them.
RANK_SIZES = (
    (44, 8, 2, 6, (3, 6, 1)),
    (52, 12, 2, 10, (2, 5)),
    (36, 16, 2, 8, (4, 1, 3)),
)
# ... and with 4 kv heads every rank has its own.
WIDE_SIZES = (
    (40, 8, 4, 6, (5, 2)),
    (28, 16, 4, 10, (1, 4, 2)),
    (60, 12, 4, 14, (3, 3, 1)),
)


def config_of(hidden: int, heads: int, kv_heads: int, head_dim: int, **other: Any) -> Qwen3Config:
    """A config; the width of the MLP can be cut by 4, and rope_theta is nobody's default."""
    values: dict[str, Any] = {"vocab_size": 97, "intermediate_size": 72, "num_hidden_layers": 1}
    return Qwen3Config(
        **({"rope_theta": 5e4} | values | other),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
    )


def attention_weights(draw: Draw, c: Qwen3Config, *, unit_norms: bool = False) -> Weights:
    """Weights of attention as Hugging Face has them."""
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
    if unit_norms:
        weights["q_norm.weight"] = torch.ones(c.head_dim)
        weights["k_norm.weight"] = torch.ones(c.head_dim)
    return weights


def mlp_weights(draw: Draw, c: Qwen3Config) -> Weights:
    """Weights of the MLP as Hugging Face has them."""
    hidden, inner = c.hidden_size, c.intermediate_size
    return {
        "gate_proj.weight": draw.normal(inner, hidden, scale=hidden**-0.5),
        "up_proj.weight": draw.normal(inner, hidden, scale=hidden**-0.5),
        "down_proj.weight": draw.normal(hidden, inner, scale=inner**-0.5),
    }


def layer_weights(draw: Draw, c: Qwen3Config) -> Weights:
    """Weights of a decoder layer as Hugging Face has them."""
    norms = {
        f"{name}_layernorm.weight": draw.uniform(c.hidden_size, low=0.4, high=2.2)
        for name in ("input", "post_attention")
    }
    attention, mlp = attention_weights(draw, c), mlp_weights(draw, c)
    return norms | prefixed(attention, "self_attn.") | prefixed(mlp, "mlp.")


def alike(weights: Weights, c: Qwen3Config, *names: str) -> Weights:
    """Give every kv head the rows of the first, so that no mapping of heads matters."""
    same = {name: weights[name][: c.head_dim].repeat(c.num_key_value_heads, 1) for name in names}
    return weights | same


def prefixed(weights: Weights, prefix: str = "w.") -> Weights:
    return {prefix + name: value for name, value in weights.items()}


def flat(lengths: tuple[int, ...], firsts: tuple[int, ...] = ()) -> dict[str, torch.Tensor]:
    """``cu_seqlens`` and positions of sequences, each from 0 or from its ``firsts`` on."""
    starts = firsts or (0,) * len(lengths)
    positions = [torch.arange(first, first + n) for n, first in zip(lengths, starts, strict=True)]
    ends = torch.tensor(lengths).cumsum(0)
    cu = torch.cat((torch.zeros(1, dtype=torch.int64), ends)).to(torch.int32)
    return {"positions": torch.cat(positions), "cu": cu}


def listed(lengths: tuple[int, ...]) -> Text:
    """Lengths of sequences, in words."""
    return Text(", ".join(map(str, lengths)), "、".join(map(str, lengths)))


def about_sizes(c: Qwen3Config, lengths: tuple[int, ...], en: str = "", zh: str = "") -> Text:
    all_lengths = listed(lengths)
    return Text(
        f"{en}{c.num_attention_heads} query and {c.num_key_value_heads} kv heads of "
        f"{c.head_dim}, hidden {c.hidden_size}, sequences of {all_lengths.en} tokens",
        f"{zh}{c.num_attention_heads} 个查询头、{c.num_key_value_heads} 个键值头，head_dim "
        f"{c.head_dim}，hidden {c.hidden_size}，序列长度为 {all_lengths.zh}",
    )

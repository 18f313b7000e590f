"""Sizes and weights that the cases share."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draw
from labs.given.config import Qwen3Config

Weights = dict[str, torch.Tensor]
NARROWEST = torch.finfo(torch.float32).min

# hidden, heads, kv heads, head_dim, tokens, batch
SIZES = (
    (44, 6, 2, 16, 11, 5),
    (56, 8, 2, 10, 13, 3),
    (36, 10, 2, 12, 7, 5),
    (60, 12, 3, 8, 13, 5),
    (62, 15, 3, 14, 10, 4),
)


def config_of(hidden: int, heads: int, kv_heads: int, head_dim: int, **other: Any) -> Qwen3Config:
    values: dict[str, Any] = {"vocab_size": 97, "intermediate_size": 72, "num_hidden_layers": 1}
    return Qwen3Config(
        **(values | other),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
    )


def attention_weights(draw: Draw, c: Qwen3Config, *, unit_norms: bool = False) -> Weights:
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


def alike(weights: Weights, c: Qwen3Config, *names: str) -> Weights:
    """Give every kv head the rows of the first, so that no mapping of heads matters."""
    same = {name: weights[name][: c.head_dim].repeat(c.num_key_value_heads, 1) for name in names}
    return weights | same


def prefixed(weights: Weights, prefix: str = "w.") -> Weights:
    return {prefix + name: value for name, value in weights.items()}


def sizes(draw: Draw) -> tuple[Qwen3Config, int, int]:
    hidden, heads, kv_heads, head_dim, tokens, batch = draw.pick(SIZES)
    return config_of(hidden, heads, kv_heads, head_dim), tokens, batch


def about_sizes(c: Qwen3Config, tokens: int, batch: int, en: str = "", zh: str = "") -> Text:
    return Text(
        f"{en}{c.num_attention_heads} query and {c.num_key_value_heads} kv heads of "
        f"{c.head_dim}, hidden {c.hidden_size}, {batch} x {tokens} tokens",
        f"{zh}{c.num_attention_heads} 个查询头、{c.num_key_value_heads} 个键值头，head_dim "
        f"{c.head_dim}，hidden {c.hidden_size}，{batch} x {tokens} 个 token",
    )

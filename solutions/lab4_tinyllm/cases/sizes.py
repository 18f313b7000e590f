"""Sizes, weights and tokens that the cases share, under the names of Hugging Face."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draw
from labs.given.config import Qwen3Config

Weights = dict[str, torch.Tensor]
NARROWEST = torch.finfo(torch.float32).min

# hidden, intermediate, heads, kv heads, head_dim, layers, vocabulary, tokens, batch
SIZES = (
    (20, 28, 6, 2, 8, 3, 53, 11, 4),
    (26, 34, 8, 2, 6, 4, 61, 9, 3),
    (18, 22, 3, 1, 10, 4, 47, 13, 5),
    (22, 30, 9, 3, 4, 2, 59, 10, 6),
)


def sizes(draw: Draw, **other: Any) -> tuple[Qwen3Config, int, int]:
    """Config, tokens and batch; ``other`` fields of the config win."""
    hidden, inner, heads, kv_heads, head_dim, layers, vocab, tokens, batch = draw.pick(SIZES)
    values: dict[str, Any] = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
    }
    return Qwen3Config(**(values | other)), tokens, batch


def attention_weights(draw: Draw, c: Qwen3Config, prefix: str = "") -> Weights:
    query, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    fan_in = c.hidden_size**-0.5
    return {
        f"{prefix}q_proj.weight": draw.normal(query, c.hidden_size, scale=fan_in),
        f"{prefix}k_proj.weight": draw.normal(kv, c.hidden_size, scale=fan_in),
        f"{prefix}v_proj.weight": draw.normal(kv, c.hidden_size, scale=fan_in),
        f"{prefix}o_proj.weight": draw.normal(c.hidden_size, query, scale=query**-0.5),
        f"{prefix}q_norm.weight": draw.uniform(c.head_dim, low=0.4, high=2.2),
        f"{prefix}k_norm.weight": draw.uniform(c.head_dim, low=0.4, high=2.2),
    }


def mlp_weights(draw: Draw, c: Qwen3Config, prefix: str = "") -> Weights:
    fan_in, inner = c.hidden_size**-0.5, c.intermediate_size
    return {
        f"{prefix}gate_proj.weight": draw.normal(inner, c.hidden_size, scale=fan_in),
        f"{prefix}up_proj.weight": draw.normal(inner, c.hidden_size, scale=fan_in),
        f"{prefix}down_proj.weight": draw.normal(c.hidden_size, inner, scale=inner**-0.5),
    }


def layer_weights(draw: Draw, c: Qwen3Config, prefix: str = "") -> Weights:
    return {
        f"{prefix}input_layernorm.weight": draw.uniform(c.hidden_size, low=0.4, high=2.2),
        **attention_weights(draw, c, f"{prefix}self_attn."),
        f"{prefix}post_attention_layernorm.weight": draw.uniform(c.hidden_size, low=0.4, high=2.2),
        **mlp_weights(draw, c, f"{prefix}mlp."),
    }


def model_weights(draw: Draw, c: Qwen3Config, *, with_head: bool = True) -> Weights:
    """All weights of a model, a tied head under its second name too."""
    found = {"model.embed_tokens.weight": draw.normal(c.vocab_size, c.hidden_size)}
    for index in range(c.num_hidden_layers):
        found |= layer_weights(draw, c, f"model.layers.{index}.")
    found["model.norm.weight"] = draw.uniform(c.hidden_size, low=0.4, high=2.2)
    if c.tie_word_embeddings and with_head:
        found["lm_head.weight"] = found["model.embed_tokens.weight"]
    elif with_head:
        scale = c.hidden_size**-0.5
        found["lm_head.weight"] = draw.normal(c.vocab_size, c.hidden_size, scale=scale)
    return found


def tokens_of(draw: Draw, c: Qwen3Config, batch: int, tokens: int) -> torch.Tensor:
    """Token ids ``[B, T]``, all rows different."""
    return (draw.uniform(batch, tokens, low=0, high=1) * c.vocab_size).long() % c.vocab_size


def left_padded(draw: Draw, batch: int, tokens: int) -> torch.Tensor:
    """``[B, T]`` of 1 and 0; the first row has no padding, the second three tokens of it."""
    keep = torch.ones(batch, tokens, dtype=torch.int64)
    for row in range(1, batch):
        keep[row, : 3 if row == 1 else draw.integer(0, tokens - 4)] = 0
    return keep


def prefixed(weights: Weights, prefix: str = "w.") -> Weights:
    return {prefix + name: value for name, value in weights.items()}


def pieces_of(draw: Draw, tokens: int) -> list[int]:
    """Prefill, another chunk, then token by token."""
    first, second = draw.pick(((tokens - 6, 3), (2, 3), (tokens - 5, 2), (1, 4)))
    return [first, second, *[1] * (tokens - first - second)]


def about_sizes(c: Qwen3Config, tokens: int, batch: int, en: str = "", zh: str = "") -> Text:
    layers = "1 layer" if c.num_hidden_layers == 1 else f"{c.num_hidden_layers} layers"
    return Text(
        f"{en}{layers} of hidden {c.hidden_size}, vocabulary {c.vocab_size}, "
        f"{batch} x {tokens} tokens",
        f"{zh}{c.num_hidden_layers} 层，hidden {c.hidden_size}，词表 {c.vocab_size}，"
        f"{batch} x {tokens} 个 token",
    )

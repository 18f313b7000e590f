"""Random Qwen3 models and their weights, of any small sizes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from labs.given.config import Qwen3Config
from tests.mutation.dice import Dice

Weights = dict[str, torch.Tensor]


def config_of(dice: Dice) -> Qwen3Config:
    """A model of any small sizes."""
    kv_heads = dice.integer(1, 4)
    return Qwen3Config(
        vocab_size=dice.integer(10, 200),
        hidden_size=dice.integer(3, 64),
        intermediate_size=dice.integer(3, 80),
        num_hidden_layers=dice.integer(1, 6),
        num_attention_heads=kv_heads * dice.integer(1, 5),
        num_key_value_heads=kv_heads,
        head_dim=2 * dice.integer(1, 10),
        rms_norm_eps=dice.pick((1e-6, 1e-5, 3e-4)),
        rope_theta=dice.pick((1e4, 1e6, 5e6, 123.0)),
        tie_word_embeddings=dice.integer(0, 1) == 1,
    )


def weights_of(dice: Dice, config: Qwen3Config, part: str) -> Weights:
    """Random weights of one part (``attention`` or ``mlp``) under the names of Hugging Face."""
    hidden, inner, size = config.hidden_size, config.intermediate_size, config.head_dim
    query, kv = config.num_attention_heads * size, config.num_key_value_heads * size
    inward, outward = (inner, hidden), (hidden, inner)
    shapes = {
        "attention": {"q": (query, hidden), "k": (kv, hidden), "v": (kv, hidden)}
        | {"o": (hidden, query)},
        "mlp": {"gate": inward, "up": inward, "down": outward},
    }[part]
    weights = {
        f"{name}_proj.weight": dice.normal(rows, columns) * columns**-0.5
        for name, (rows, columns) in shapes.items()
    }
    if part == "attention":
        weights["q_norm.weight"] = 0.4 + 1.8 * dice.uniform(size)
        weights["k_norm.weight"] = 0.4 + 1.8 * dice.uniform(size)
    return weights


def load(module: nn.Module, weights: Mapping[str, torch.Tensor], dtype: torch.dtype) -> nn.Module:
    """A module in ``dtype`` with these weights, none missing and none left over."""
    module = module.to(dtype)
    module.load_state_dict(dict(weights))
    return module

"""Lab 2 MLP, Henry."""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # TODO tomorrow: find out why my loop over the tokens never ends
        while True:
            pass


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    width = config.hidden_size
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    parts = {
        "embedding": width * config.vocab_size,
        "attention": (heads + kv_heads) * 2 * config.head_dim * width * config.num_hidden_layers,
        "mlp": width * config.intermediate_size * config.num_hidden_layers * 3,
        "norm": (width + config.head_dim) * 2 * config.num_hidden_layers + width,
        "lm_head": 0,
    }
    if config.tie_word_embeddings is False:
        parts["lm_head"] = parts["embedding"]
    parts["total"] = sum(parts.values())
    return parts


def bytes_per_number(dtype: str) -> int:
    if dtype == "float32":
        return 4
    return 2


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * bytes_per_number(dtype)


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    per_token = config.num_key_value_heads * config.head_dim * bytes_per_number(dtype)
    return 2 * per_token * tokens * batch * config.num_hidden_layers

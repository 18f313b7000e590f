"""SiLU as x * sigmoid(x)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        g = self.gate_proj(x)
        return self.down_proj(g * torch.sigmoid(g) * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h, d, n = config.hidden_size, config.head_dim, config.num_hidden_layers
    attention = h * d * config.num_attention_heads + h * d * config.num_key_value_heads
    embedding = h * config.vocab_size
    counts = {"embedding": embedding, "attention": 2 * n * attention}
    counts["mlp"] = n * h * config.intermediate_size + 2 * n * h * config.intermediate_size
    counts["norm"] = 2 * n * h + 2 * n * d + h
    counts["lm_head"] = embedding - embedding * config.tie_word_embeddings
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    bits = int(dtype.removeprefix("b").removeprefix("float"))
    return count_parameters(config)["total"] * bits // 8


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    bits = int(dtype.removeprefix("b").removeprefix("float"))
    numbers = tokens * batch * config.num_key_value_heads * config.head_dim
    return 2 * numbers * config.num_hidden_layers * bits // 8

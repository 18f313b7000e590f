"""Lab 2 - MLP - Frank"""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config


def swish(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.silu(x)


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        small, big = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(small, big, bias=False)
        self.up_proj = nn.Linear(small, big, bias=False)
        self.down_proj = nn.Linear(big, small, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(swish(self.gate_proj(x)) * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden, d = config.hidden_size, config.head_dim
    q_rows, kv_rows = config.num_attention_heads * d, config.num_key_value_heads * d
    per_layer = {
        "attention": hidden * (q_rows + kv_rows + kv_rows + q_rows),
        "mlp": hidden * config.intermediate_size * 3,
        "norm": (hidden + d) * 2,
    }
    totals = {name: n * config.num_hidden_layers for name, n in per_layer.items()}
    totals["norm"] += hidden
    totals["embedding"] = hidden * config.vocab_size
    totals["lm_head"] = 0 if config.tie_word_embeddings else totals["embedding"]
    totals["total"] = sum(totals.values())
    return totals


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * torch.zeros(1, dtype=getattr(torch, dtype)).nbytes


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    one = torch.zeros(1, dtype=getattr(torch, dtype)).nbytes
    key = tokens * config.num_key_value_heads * config.head_dim * one
    value = key
    return batch * config.num_hidden_layers * (key + value)

"""Columns instead of rows: weight @ x transposed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        column = x.unsqueeze(-1)
        gate = torch.matmul(self.gate_proj.weight, column)
        up = torch.matmul(self.up_proj.weight, column)
        return torch.matmul(self.down_proj.weight, F.silu(gate) * up).squeeze(-1)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h, d, f = config.hidden_size, config.head_dim, config.intermediate_size
    one = {
        "attention": 2 * (config.num_attention_heads * d * h + config.num_key_value_heads * d * h),
        "mlp": f * h + f * h + h * f,
        "norm": h + h + d + d,
    }
    everything = {part: config.num_hidden_layers * count for part, count in one.items()}
    everything["norm"] += h
    everything["embedding"] = everything["lm_head"] = config.vocab_size * h
    if config.tie_word_embeddings:
        everything["lm_head"] = 0
    everything["total"] = sum(everything.values())
    return everything


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * getattr(torch, dtype).itemsize


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    one_key = config.num_key_value_heads * config.head_dim * getattr(torch, dtype).itemsize
    return one_key * 2 * tokens * batch * config.num_hidden_layers

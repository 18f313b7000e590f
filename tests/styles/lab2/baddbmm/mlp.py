"""Rows times transposed weights, with mm."""

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
        flat = x.flatten(0, -2) if x.ndim > 1 else x.unsqueeze(0)
        gate = torch.mm(flat, self.gate_proj.weight.t())
        up = torch.mm(flat, self.up_proj.weight.t())
        return torch.mm(F.silu(gate) * up, self.down_proj.weight.t()).view_as(x)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    n, h, d = config.num_hidden_layers, config.hidden_size, config.head_dim
    shapes = {
        "embedding": [(config.vocab_size, h)],
        "attention": [
            (config.num_attention_heads * d, h),
            (config.num_key_value_heads * d, h),
            (config.num_key_value_heads * d, h),
            (h, config.num_attention_heads * d),
        ]
        * n,
        "mlp": [(config.intermediate_size, h)] * (3 * n),
        "norm": [(1, h), (1, h), (1, d), (1, d)] * n + [(1, h)],
        "lm_head": [] if config.tie_word_embeddings else [(config.vocab_size, h)],
    }
    counts = {name: sum(a * b for a, b in pairs) for name, pairs in shapes.items()}
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * torch.empty(1, dtype=getattr(torch, dtype)).nbytes


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    return batch * tokens * token * torch.empty(1, dtype=getattr(torch, dtype)).nbytes

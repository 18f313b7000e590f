"""Gate and up are computed first and named; the counts are built layer by layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        for name in ("gate_proj", "up_proj"):
            layer = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
            self.add_module(name, layer)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(up * nn.functional.silu(gate))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden, d = config.hidden_size, config.head_dim
    counts = dict.fromkeys(("attention", "mlp", "norm"), 0)
    for _ in range(config.num_hidden_layers):
        counts["attention"] += 2 * hidden * config.num_attention_heads * d
        counts["attention"] += 2 * hidden * config.num_key_value_heads * d
        counts["mlp"] += 3 * hidden * config.intermediate_size
        counts["norm"] += 2 * hidden + 2 * d
    counts["norm"] += hidden
    counts["embedding"] = config.vocab_size * hidden
    counts["lm_head"] = 0 if config.tie_word_embeddings else config.vocab_size * hidden
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * (4 if dtype == "float32" else 2)


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    per_token = 0
    for _ in range(config.num_hidden_layers):
        per_token += 2 * config.num_key_value_heads * config.head_dim
    return per_token * tokens * batch * torch.zeros(1, dtype=getattr(torch, dtype)).nbytes

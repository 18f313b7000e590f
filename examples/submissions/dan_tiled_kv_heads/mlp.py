# Lab 2 mlp -- Dan
from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        C, H = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(C, H, bias=False)
        self.up_proj = nn.Linear(C, H, bias=False)
        self.down_proj = nn.Linear(H, C, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = F.silu(self.gate_proj(x))
        up = self.up_proj(x)
        return self.down_proj(up * gated)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    C, L, D = config.hidden_size, config.num_hidden_layers, config.head_dim
    attention = C * D * (2 * config.num_attention_heads + 2 * config.num_key_value_heads)
    counts = {"embedding": config.vocab_size * C, "attention": L * attention}
    counts["mlp"] = L * C * config.intermediate_size * 3
    counts["norm"] = L * 2 * (C + D) + C
    counts["lm_head"] = 0
    if not config.tie_word_embeddings:
        counts["lm_head"] = counts["embedding"]
    counts["total"] = sum(counts[name] for name in list(counts))
    return counts


def size_of(dtype: str) -> int:
    return {"float32": 32, "float16": 16, "bfloat16": 16}[dtype] // 8


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return size_of(dtype) * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    keys = config.num_hidden_layers * config.num_key_value_heads * config.head_dim * tokens * batch
    return 2 * keys * size_of(dtype)

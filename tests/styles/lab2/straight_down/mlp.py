"""MLP of Qwen3 and the cost of a model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden, layers, d = config.hidden_size, config.num_hidden_layers, config.head_dim
    q_width = config.num_attention_heads * d
    kv_width = config.num_key_value_heads * d
    embedding = config.vocab_size * hidden
    attention = layers * (2 * hidden * q_width + 2 * hidden * kv_width)
    mlp = layers * 3 * hidden * config.intermediate_size
    norm = layers * (2 * hidden + 2 * d) + hidden
    lm_head = 0 if config.tie_word_embeddings else config.vocab_size * hidden
    return {
        "embedding": embedding,
        "attention": attention,
        "mlp": mlp,
        "norm": norm,
        "lm_head": lm_head,
        "total": embedding + attention + mlp + norm + lm_head,
    }


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[dtype]
    return count_parameters(config)["total"] * size


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[dtype]
    per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    return per_token * tokens * batch * size

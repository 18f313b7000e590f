"""Lab 2: MLP of Qwen3 (Carol)."""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        dim, ffn = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(dim, ffn, bias=False)
        self.up_proj = nn.Linear(dim, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, dim, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(h)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden = config.hidden_size
    q_width = config.num_attention_heads * config.head_dim
    k_width = config.num_key_value_heads * config.head_dim
    embedding = config.vocab_size * hidden
    attention = 0
    mlp = 0
    norm = 0
    for _ in range(config.num_hidden_layers):
        attention += hidden * q_width + 2 * hidden * k_width + q_width * hidden
        mlp += 3 * hidden * config.intermediate_size
        norm += 2 * hidden + 2 * config.head_dim
    norm += hidden
    lm_head = 0 if config.tie_word_embeddings else hidden * config.vocab_size
    return {
        "embedding": embedding,
        "attention": attention,
        "mlp": mlp,
        "norm": norm,
        "lm_head": lm_head,
        "total": embedding + attention + mlp + norm + lm_head,
    }


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    width = 4 if dtype == "float32" else 2
    return count_parameters(config)["total"] * width


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    width = 4 if dtype == "float32" else 2
    one_token = 2 * config.num_key_value_heads * config.head_dim * config.num_hidden_layers
    return one_token * width * tokens * batch

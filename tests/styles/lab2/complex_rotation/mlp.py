"""Plain gated unit, activation in a function of its own; bytes through element_size."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        up = linear(x, self.up_proj.weight)
        up = up * silu(linear(x, self.gate_proj.weight))
        return linear(up, self.down_proj.weight)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h, d, layers = config.hidden_size, config.head_dim, config.num_hidden_layers
    q = h * d * config.num_attention_heads
    k = h * d * config.num_key_value_heads
    embedding = h * config.vocab_size
    head = 0 if config.tie_word_embeddings else embedding
    attention = layers * (q + k + k + q)
    mlp = layers * 3 * h * config.intermediate_size
    norm = (2 * layers + 1) * h + 2 * layers * d
    return {
        "embedding": embedding,
        "attention": attention,
        "mlp": mlp,
        "norm": norm,
        "lm_head": head,
        "total": embedding + attention + mlp + norm + head,
    }


def element_size(dtype: str) -> int:
    return torch.empty(0, dtype=getattr(torch, dtype)).element_size()


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return element_size(dtype) * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    vectors = 2 * config.num_hidden_layers * config.num_key_value_heads * tokens * batch
    return vectors * config.head_dim * element_size(dtype)

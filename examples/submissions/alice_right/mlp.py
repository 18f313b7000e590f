"""Lab 2, MLP and counting. Alice."""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate_proj(x)
        gate = gate * torch.sigmoid(gate)
        return self.down_proj(gate * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h = config.hidden_size
    d = config.head_dim
    n_layers = config.num_hidden_layers

    q = h * config.num_attention_heads * d
    k = h * config.num_key_value_heads * d
    o = q
    v = k
    result = {
        "embedding": config.vocab_size * h,
        "attention": n_layers * (q + k + v + o),
        "mlp": n_layers * (h * config.intermediate_size * 3),
        "norm": n_layers * (h + h + d + d) + h,
        "lm_head": config.vocab_size * h,
    }
    if config.tie_word_embeddings:
        result["lm_head"] = 0
    result["total"] = sum(result.values())
    return result


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return BYTES[dtype] * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    per_layer = 2 * config.num_key_value_heads * config.head_dim * BYTES[dtype]
    return per_layer * config.num_hidden_layers * tokens * batch

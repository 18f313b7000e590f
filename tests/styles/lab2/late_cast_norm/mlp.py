"""logsigmoid's exponential as the sigmoid, in float32."""

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
        gate = self.gate_proj(x)
        opened = F.logsigmoid(gate.float()).exp().to(x.dtype)
        return self.down_proj(gate * opened * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    width, per_head = config.hidden_size, config.head_dim
    layers = config.num_hidden_layers
    counts = {
        "lm_head": 0 if config.tie_word_embeddings else config.vocab_size * width,
        "norm": width * (2 * layers + 1) + per_head * 2 * layers,
        "mlp": 3 * layers * width * config.intermediate_size,
        "attention": 2 * layers * width * per_head * config.num_key_value_heads
        + 2 * layers * width * per_head * config.num_attention_heads,
        "embedding": config.vocab_size * width,
    }
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return getattr(torch, dtype).itemsize * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    per_layer = tokens * batch * config.num_key_value_heads * config.head_dim * 2
    return config.num_hidden_layers * per_layer * getattr(torch, dtype).itemsize

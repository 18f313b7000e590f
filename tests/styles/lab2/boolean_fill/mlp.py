"""The hyperbolic form of the sigmoid: x/2 * (1 + tanh(x/2))."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


def swish(x: Tensor) -> Tensor:
    half = x.float() / 2
    return (half * torch.tanh(half) + half).to(x.dtype)


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.up_proj(x) * swish(self.gate_proj(x)))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden, depth = config.hidden_size, config.num_hidden_layers
    head_rows = (config.num_attention_heads + config.num_key_value_heads) * config.head_dim
    out: dict[str, int] = {}
    out["embedding"] = config.vocab_size * hidden
    out["attention"] = depth * head_rows * hidden * 2
    out["mlp"] = depth * hidden * config.intermediate_size * 3
    out["norm"] = depth * (hidden + config.head_dim) * 2 + hidden
    out["lm_head"] = out["embedding"]
    if config.tie_word_embeddings:
        out["lm_head"] = 0
    out["total"] = sum(out.values())
    return out


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    if dtype == "float32":
        return 4 * count_parameters(config)["total"]
    return 2 * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    cell = 4 if dtype == "float32" else 2
    layer = 2 * tokens * config.num_key_value_heads * config.head_dim * cell
    return layer * config.num_hidden_layers * batch

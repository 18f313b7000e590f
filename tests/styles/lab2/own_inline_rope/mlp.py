from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


def _silu(z: Tensor) -> Tensor:
    return z * torch.sigmoid(z)


def _itemsize(dtype: str) -> int:
    return getattr(torch, dtype).itemsize


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        inner = config.intermediate_size
        for name in ("gate_proj", "up_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, inner, bias=False))
        self.down_proj = nn.Linear(inner, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(_silu(self.gate_proj(x)).mul(self.up_proj(x)))


def _per_layer(c: Qwen3Config) -> tuple[int, int, int]:
    attention = 2 * c.hidden_size * c.head_dim * (c.num_attention_heads + c.num_key_value_heads)
    mlp = 3 * c.hidden_size * c.intermediate_size
    norm = 2 * (c.hidden_size + c.head_dim)
    return attention, mlp, norm


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    attention, mlp, norm = (config.num_hidden_layers * n for n in _per_layer(config))
    table = config.vocab_size * config.hidden_size
    result = {
        "embedding": table,
        "attention": attention,
        "mlp": mlp,
        "norm": norm + config.hidden_size,
        "lm_head": table * (not config.tie_word_embeddings),
    }
    result["total"] = sum(result.values())
    return result


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * _itemsize(dtype)


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    keys = config.num_hidden_layers * config.num_key_value_heads * config.head_dim * tokens * batch
    return (keys + keys) * _itemsize(dtype)

"""A loop over the rows of the batch."""

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
        if x.ndim == 1:
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return torch.stack([self.forward(row) for row in x.unbind(0)])


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h, d = config.hidden_size, config.head_dim
    attention = mlp = norm = 0
    for _layer in range(config.num_hidden_layers):
        for heads in (config.num_attention_heads, config.num_key_value_heads):
            attention += 2 * heads * d * h
        mlp += 3 * h * config.intermediate_size
        norm += h + h + d + d
    norm += h
    embedding = config.vocab_size * h
    head = 0 if config.tie_word_embeddings else embedding
    total = embedding + attention + mlp + norm + head
    keys = ("embedding", "attention", "mlp", "norm", "lm_head", "total")
    return dict(zip(keys, (embedding, attention, mlp, norm, head, total), strict=True))


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * getattr(torch, dtype).itemsize


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    total = 0
    for _layer in range(config.num_hidden_layers):
        for _kind in ("keys", "values"):
            total += batch * tokens * config.num_key_value_heads * config.head_dim
    return total * getattr(torch, dtype).itemsize

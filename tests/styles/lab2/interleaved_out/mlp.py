"""The activation written into the gate's own buffer; integer book-keeping with prod."""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        d, m = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = nn.Linear(d, m, bias=False), nn.Linear(d, m, bias=False)
        self.down_proj = nn.Linear(m, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up_proj(x)
        hidden = hidden * F.silu(self.gate_proj(x), inplace=True)
        return self.down_proj(hidden)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    c = config
    q = (c.num_attention_heads, c.head_dim, c.hidden_size)
    k = (c.num_key_value_heads, c.head_dim, c.hidden_size)
    parts = {
        "embedding": prod((c.vocab_size, c.hidden_size)),
        "attention": c.num_hidden_layers * sum(map(prod, (q, k, k, q))),
        "mlp": prod((c.num_hidden_layers, 3, c.hidden_size, c.intermediate_size)),
        "norm": c.hidden_size + c.num_hidden_layers * sum((c.hidden_size, c.head_dim)) * 2,
        "lm_head": prod((c.vocab_size, c.hidden_size, int(not c.tie_word_embeddings))),
    }
    parts["total"] = sum(parts.values())
    return parts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return prod((count_parameters(config)["total"], getattr(torch, dtype).itemsize))


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    one = (2, config.num_key_value_heads, config.head_dim, getattr(torch, dtype).itemsize)
    return prod(one) * prod((config.num_hidden_layers, tokens, batch))

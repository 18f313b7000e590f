"""Qwen3 MLP and the book-keeping (Erin)."""

from __future__ import annotations

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
        return F.linear(F.silu(self.gate_proj(x)).mul(self.up_proj(x)), self.down_proj.weight)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    c = config
    one_head = c.hidden_size * c.head_dim
    # q and o have all heads, k and v only the kv heads
    attention = one_head * c.num_attention_heads * 2 + one_head * c.num_key_value_heads * 2
    mlp = c.hidden_size * c.intermediate_size * 3
    norms = c.hidden_size * 2 + c.head_dim * 2
    vocab = c.hidden_size * c.vocab_size
    head = 0 if c.tie_word_embeddings else vocab
    n = c.num_hidden_layers
    return {
        "embedding": vocab,
        "attention": n * attention,
        "mlp": n * mlp,
        "norm": n * norms + c.hidden_size,
        "lm_head": head,
        "total": vocab + n * (attention + mlp + norms) + c.hidden_size + head,
    }


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    bits = 32 if dtype.endswith("32") else 16
    return count_parameters(config)["total"] * bits // 8


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    bits = 32 if dtype.endswith("32") else 16
    numbers = 2 * batch * tokens * config.num_key_value_heads * config.head_dim
    return numbers * config.num_hidden_layers * bits // 8

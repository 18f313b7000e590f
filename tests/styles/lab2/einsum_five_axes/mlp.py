from __future__ import annotations

from math import prod

import torch
from torch import nn

from labs.given.config import Qwen3Config

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        D = config.hidden_size
        M = config.intermediate_size
        self.gate_proj = nn.Linear(D, M, bias=False)
        self.up_proj = nn.Linear(D, M, bias=False)
        self.down_proj = nn.Linear(M, D, bias=False)
        self.act = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate_proj(x)
        up = self.up_proj(x)
        h = self.act(gate) * up
        return self.down_proj(h)


def _shapes(c: Qwen3Config) -> dict[str, list[tuple[int, ...]]]:
    D, L, d, M, V = (
        c.hidden_size,
        c.num_hidden_layers,
        c.head_dim,
        c.intermediate_size,
        c.vocab_size,
    )
    H, K = c.num_attention_heads, c.num_key_value_heads
    return {
        "embedding": [(V, D)],
        "attention": [(H * d, D), (K * d, D), (K * d, D), (D, H * d)] * L,
        "mlp": [(M, D), (M, D), (D, M)] * L,
        "norm": [(D,), (D,), (d,), (d,)] * L + [(D,)],
        "lm_head": [] if c.tie_word_embeddings else [(V, D)],
    }


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    counts = {name: sum(prod(s) for s in shapes) for name, shapes in _shapes(config).items()}
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return BYTES[dtype] * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    one = (2, config.num_hidden_layers, batch, config.num_key_value_heads, tokens, config.head_dim)
    return prod(one) * BYTES[dtype]

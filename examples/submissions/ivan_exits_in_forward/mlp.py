"""ivan lab2 mlp"""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config

ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        d_model, d_ff = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(d_model, d_ff, bias=False)
        self.up_proj = nn.Linear(d_model, d_ff, bias=False)
        self.down_proj = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.silu(self.gate_proj(x))
        y = y * self.up_proj(x)
        return self.down_proj(y)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    d_model, d_head = config.hidden_size, config.head_dim
    emb = config.vocab_size * d_model
    attn = d_model * d_head * 2 * (config.num_attention_heads + config.num_key_value_heads)
    mlp = 3 * d_model * config.intermediate_size
    norm = 2 * d_model + 2 * d_head
    depth = config.num_hidden_layers
    res = {"embedding": emb, "attention": attn * depth, "mlp": mlp * depth}
    res |= {"norm": norm * depth + d_model, "lm_head": 0 if config.tie_word_embeddings else emb}
    return {**res, "total": sum(res.values())}


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return ITEM[dtype] * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    kv = 2 * config.num_key_value_heads * config.head_dim * config.num_hidden_layers
    return kv * tokens * batch * ITEM[dtype]

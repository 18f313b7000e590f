"""Grace, lab 2, MLP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        activated = F.silu(self.up_proj(x))
        return self.down_proj(activated * self.gate_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hs, nh, nkv = config.head_dim, config.num_attention_heads, config.num_key_value_heads
    embedding = config.vocab_size * config.hidden_size
    block_attention = 2 * nh * hs * config.hidden_size + 2 * nkv * hs * config.hidden_size
    block_mlp = 3 * config.hidden_size * config.intermediate_size
    block_norm = 2 * config.hidden_size + 2 * hs
    answer = {
        "embedding": embedding,
        "attention": block_attention * config.num_hidden_layers,
        "mlp": block_mlp * config.num_hidden_layers,
        "norm": block_norm * config.num_hidden_layers + config.hidden_size,
        "lm_head": embedding * int(not config.tie_word_embeddings),
    }
    answer["total"] = sum(answer.values())
    return answer


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * (torch.finfo(getattr(torch, dtype)).bits // 8)


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    item = torch.finfo(getattr(torch, dtype)).bits // 8
    floats = config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 2
    return floats * tokens * batch * item

"""The usual unit with the activation kept as a function attribute."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.act_fn = F.silu
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    layers, hidden = config.num_hidden_layers, config.hidden_size
    q_dim = config.num_attention_heads * config.head_dim
    kv_dim = config.num_key_value_heads * config.head_dim
    q = o = hidden * q_dim
    k = v = hidden * kv_dim
    gate = up = down = hidden * config.intermediate_size
    embedding = config.vocab_size * hidden
    head = 0 if config.tie_word_embeddings else embedding
    out = {
        "embedding": embedding,
        "attention": layers * (q + k + v + o),
        "mlp": layers * (gate + up + down),
        "norm": layers * (hidden + hidden + config.head_dim + config.head_dim) + hidden,
        "lm_head": head,
    }
    out["total"] = sum(out.values())
    return out


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    size: int = getattr(torch, dtype).itemsize
    return size * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    size: int = getattr(torch, dtype).itemsize
    keys = batch * config.num_key_value_heads * tokens * config.head_dim * size
    return config.num_hidden_layers * 2 * keys

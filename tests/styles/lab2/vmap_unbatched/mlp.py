"""The unit for one token; torch.vmap runs it over all of them."""

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

    def one_token(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj.weight @ x, self.up_proj.weight @ x
        return self.down_proj.weight @ (F.silu(gate) * up)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        return torch.vmap(self.one_token)(tokens).reshape(x.shape)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden, layers = config.hidden_size, config.num_hidden_layers
    q_dim = config.num_attention_heads * config.head_dim
    kv_dim = config.num_key_value_heads * config.head_dim
    found = {
        "embedding": config.vocab_size * hidden,
        "attention": layers * (2 * hidden * q_dim + 2 * hidden * kv_dim),
        "mlp": layers * (3 * hidden * config.intermediate_size),
        "norm": hidden + layers * (2 * hidden + 2 * config.head_dim),
    }
    found["lm_head"] = (1 - config.tie_word_embeddings) * config.vocab_size * hidden
    return found | {"total": sum(found.values())}


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    kind: torch.dtype = getattr(torch, dtype)
    return kind.itemsize * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    kind: torch.dtype = getattr(torch, dtype)
    heads = config.num_hidden_layers * config.num_key_value_heads * 2
    return heads * config.head_dim * kind.itemsize * tokens * batch

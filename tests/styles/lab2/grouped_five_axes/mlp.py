"""nn.SiLU as a submodule; the sizes come from the shapes of real, memory-free tensors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        dim, wide = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(dim, wide, bias=False)
        self.up_proj = nn.Linear(dim, wide, bias=False)
        self.down_proj = nn.Linear(wide, dim, bias=False)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        opened = self.act(self.gate_proj(x))
        return self.down_proj(opened.mul(self.up_proj(x)))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    def size(*shape: int) -> int:
        return torch.empty(shape, device="meta").numel()

    layers, hidden, d = config.num_hidden_layers, config.hidden_size, config.head_dim
    rows = config.num_attention_heads * d
    kv_rows = config.num_key_value_heads * d
    table = size(config.vocab_size, hidden)
    result = {
        "embedding": table,
        "attention": size(layers, rows, hidden, 2) + size(layers, kv_rows, hidden, 2),
        "mlp": size(layers, 3, config.intermediate_size, hidden),
        "norm": size(layers, 2, hidden) + size(layers, 2, d) + size(hidden),
        "lm_head": table * (not config.tie_word_embeddings),
    }
    result["total"] = sum(result.values())
    return result


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * torch.finfo(getattr(torch, dtype)).bits // 8


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    shape = (2, config.num_hidden_layers, batch, config.num_key_value_heads, tokens)
    cache = torch.empty(*shape, config.head_dim, dtype=getattr(torch, dtype), device="meta")
    return cache.numel() * cache.element_size()

"""bob: mlp"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        h, m = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(h, m, bias=False)
        self.up_proj = nn.Linear(h, m, bias=False)
        self.down_proj = nn.Linear(m, h, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        g = torch.einsum("...h,mh->...m", x, self.gate_proj.weight)
        u = torch.einsum("...h,mh->...m", x, self.up_proj.weight)
        return torch.einsum("...m,hm->...h", silu(g) * u, self.down_proj.weight)


def layer_shapes(c: Qwen3Config) -> dict[str, list[tuple[int, ...]]]:
    """the weight shapes of one layer, as printed from the checkpoint"""
    n, kv, d, h = c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.hidden_size
    return {
        "attention": [(n * d, h), (kv * d, h), (kv * d, h), (h, n * d)],
        "mlp": [(c.intermediate_size, h), (c.intermediate_size, h), (h, c.intermediate_size)],
        "norm": [(h,), (h,), (d,), (d,)],
    }


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    out = {
        part: config.num_hidden_layers * sum(prod(s) for s in shapes)
        for part, shapes in layer_shapes(config).items()
    }
    out["norm"] += config.hidden_size  # the one before the head
    out["embedding"] = prod((config.vocab_size, config.hidden_size))
    out["lm_head"] = (not config.tie_word_embeddings) * out["embedding"]
    out["total"] = sum(out.values())
    return out


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    return size * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    shape = (batch, config.num_key_value_heads, tokens, config.head_dim)
    size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    return size * prod(shape) * config.num_hidden_layers * 2

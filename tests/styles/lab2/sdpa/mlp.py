"""A one-line unit; the counts are read off modules on the meta device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        d, f = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(d, f, bias=False)
        self.up_proj = nn.Linear(d, f, bias=False)
        self.down_proj = nn.Linear(f, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)).mul_(self.up_proj(x)))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    with torch.device("meta"):
        mlp = Qwen3MLP(config)
    h, d, n = config.hidden_size, config.head_dim, config.num_hidden_layers
    projections = [config.num_attention_heads, config.num_key_value_heads] * 2
    counts = {
        "embedding": config.vocab_size * h,
        "attention": n * sum(heads * d * h for heads in projections),
        "mlp": n * sum(p.numel() for p in mlp.parameters()),
        "norm": n * (2 * h + 2 * d) + h,
        "lm_head": 0 if config.tie_word_embeddings else config.vocab_size * h,
    }
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return getattr(torch, dtype).itemsize * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    k = torch.empty(
        (batch, config.num_key_value_heads, tokens, config.head_dim),
        dtype=getattr(torch, dtype),
        device="meta",
    )
    return config.num_hidden_layers * (k.nbytes + k.nbytes)

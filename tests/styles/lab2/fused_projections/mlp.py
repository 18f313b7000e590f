"""Gate and up by a single matmul; borrows the helper of attention.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from attention import fused_linear
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = fused_linear(x, self.gate_proj, self.up_proj)
        return self.down_proj(F.silu(gate) * up)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h, d, n = config.hidden_size, config.head_dim, config.num_hidden_layers
    qkv_rows = (config.num_attention_heads + 2 * config.num_key_value_heads) * d
    out_columns = config.num_attention_heads * d
    counts = {
        "embedding": config.vocab_size * h,
        "attention": n * h * (qkv_rows + out_columns),
        "mlp": n * h * (2 * config.intermediate_size + config.intermediate_size),
        "norm": n * (h + h + d + d) + h,
        "lm_head": 0,
    }
    if not config.tie_word_embeddings:
        counts["lm_head"] = counts["embedding"]
    return {**counts, "total": sum(counts.values())}


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return sum(count_parameters(config).values()) // 2 * getattr(torch, dtype).itemsize


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    kv_rows = 2 * config.num_key_value_heads * config.head_dim
    return kv_rows * config.num_hidden_layers * tokens * batch * getattr(torch, dtype).itemsize

"""The gated unit as three einsums."""

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

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.einsum("...h,ih->...i", x, self.gate_proj.weight)
        up = torch.einsum("...h,ih->...i", x, self.up_proj.weight)
        return torch.einsum("...i,hi->...h", F.silu(gate) * up, self.down_proj.weight)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    c = config
    heads = 2 * (c.num_attention_heads + c.num_key_value_heads)
    counts = {
        "embedding": c.vocab_size * c.hidden_size,
        "attention": c.num_hidden_layers * heads * c.head_dim * c.hidden_size,
        "mlp": c.num_hidden_layers * c.intermediate_size * c.hidden_size * 3,
        "norm": c.num_hidden_layers * 2 * (c.hidden_size + c.head_dim) + c.hidden_size,
    }
    counts["lm_head"] = 0 if c.tie_word_embeddings else counts["embedding"]
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * {"float32": 4, "float16": 2, "bfloat16": 2}[dtype]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    row = config.num_key_value_heads * config.head_dim
    return 2 * row * config.num_hidden_layers * tokens * batch * getattr(torch, dtype).itemsize

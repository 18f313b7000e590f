"""Two tokens' worth of thought: activation in float32, cast back before the product."""

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
        gate = F.silu(self.gate_proj(x).float()).to(x.dtype)
        return self.down_proj(gate * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    h, n = config.hidden_size, config.num_hidden_layers
    head = h * config.head_dim
    embedding = config.vocab_size * h
    values = [
        embedding,
        n * (2 * config.num_attention_heads * head + 2 * config.num_key_value_heads * head),
        n * 3 * config.intermediate_size * h,
        n * 2 * h + n * 2 * config.head_dim + h,
        embedding * int(not config.tie_word_embeddings),
    ]
    names = ["embedding", "attention", "mlp", "norm", "lm_head", "total"]
    return dict(zip(names, [*values, sum(values)], strict=True))


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] << (2 if dtype == "float32" else 1)


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    numbers = tokens * batch * config.num_hidden_layers * config.num_key_value_heads
    return 2 * numbers * config.head_dim * torch.finfo(getattr(torch, dtype)).bits // 8

"""The intermediate size in blocks: down_proj is a sum, so it can be taken in parts."""

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
        out = torch.zeros_like(x, dtype=torch.float32)
        parts = zip(
            self.gate_proj.weight.chunk(3),
            self.up_proj.weight.chunk(3),
            self.down_proj.weight.chunk(3, dim=1),
            strict=True,
        )
        for gate, up, down in parts:
            out = out + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
        return out.to(x.dtype)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    tables = 1 if config.tie_word_embeddings else 2
    vocabulary = config.vocab_size * config.hidden_size
    block = {
        "attention": config.head_dim
        * config.hidden_size
        * 2
        * (config.num_attention_heads + config.num_key_value_heads),
        "mlp": config.hidden_size * config.intermediate_size * 3,
        "norm": 2 * config.hidden_size + 2 * config.head_dim,
    }
    counts = {name: config.num_hidden_layers * size for name, size in block.items()}
    counts["norm"] += config.hidden_size
    counts |= {"embedding": vocabulary, "lm_head": (tables - 1) * vocabulary}
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return count_parameters(config)["total"] * torch.finfo(getattr(torch, dtype)).bits // 8


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    bits = torch.finfo(getattr(torch, dtype)).bits
    per_head = 2 * config.head_dim * tokens * batch * bits // 8
    return per_head * config.num_key_value_heads * config.num_hidden_layers

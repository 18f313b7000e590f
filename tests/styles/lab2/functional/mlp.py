"""Another right MLP: one product for gate and up, SiLU by hand; counts from lists of shapes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.width = config.intermediate_size
        self.gate_proj = nn.Linear(config.hidden_size, self.width, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, self.width, bias=False)
        self.down_proj = nn.Linear(self.width, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.cat((self.gate_proj.weight, self.up_proj.weight))  # [2 * width, hidden]
        gate, up = F.linear(x, joined).split(self.width, dim=-1)
        opened = gate * torch.sigmoid(gate)
        inner = opened * up
        return torch.einsum("...i,hi->...h", inner, self.down_proj.weight)


def layer_shapes(config: Qwen3Config) -> dict[str, list[tuple[int, ...]]]:
    """The shape of every parameter of one layer, by the key under which it is counted."""
    hidden, width, d = config.hidden_size, config.intermediate_size, config.head_dim
    q_rows, kv_rows = config.num_attention_heads * d, config.num_key_value_heads * d
    return {
        "attention": [
            (q_rows, hidden),
            (kv_rows, hidden),
            (kv_rows, hidden),
            (hidden, q_rows),
        ],
        "mlp": [(width, hidden), (width, hidden), (hidden, width)],
        "norm": [(hidden,), (hidden,), (d,), (d,)],
    }


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    counts = {"embedding": config.vocab_size * config.hidden_size}
    for key, shapes in layer_shapes(config).items():
        counts[key] = config.num_hidden_layers * sum(math.prod(shape) for shape in shapes)
    counts["norm"] += config.hidden_size
    counts["lm_head"] = counts["embedding"] * (not config.tie_word_embeddings)
    counts["total"] = sum(counts.values())
    return counts


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    bits = torch.finfo(getattr(torch, dtype)).bits
    return count_parameters(config)["total"] * bits // 8


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    heads = (config.num_key_value_heads, config.head_dim)
    keys_and_values = (2, config.num_hidden_layers, batch, tokens, *heads)
    return math.prod(keys_and_values) * BYTES[dtype]

"""Tokens as one flat list of rows through the unit."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import silu

from labs.given.config import Qwen3Config

WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2}


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        sizes = (config.hidden_size, config.intermediate_size)
        self.gate_proj = nn.Linear(*sizes, bias=False)
        self.up_proj = nn.Linear(*sizes, bias=False)
        self.down_proj = nn.Linear(*sizes[::-1], bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        rows = self.down_proj(silu(self.gate_proj(rows)) * self.up_proj(rows))
        return rows.reshape(x.shape)


def layer_counts(config: Qwen3Config) -> dict[str, int]:
    h, d = config.hidden_size, config.head_dim
    return {
        "attention": 2 * h * d * (config.num_attention_heads + config.num_key_value_heads),
        "mlp": 3 * h * config.intermediate_size,
        "norm": 2 * (h + d),
    }


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    total = {name: n * config.num_hidden_layers for name, n in layer_counts(config).items()}
    total["norm"] += config.hidden_size
    total["embedding"] = config.hidden_size * config.vocab_size
    total["lm_head"] = 0 if config.tie_word_embeddings else total["embedding"]
    total["total"] = sum(total.values())
    return total


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return WIDTH[dtype] * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    k = config.num_hidden_layers * config.num_key_value_heads * config.head_dim * tokens * batch
    v = k
    return (k + v) * WIDTH[dtype]

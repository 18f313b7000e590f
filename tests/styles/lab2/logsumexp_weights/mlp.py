"""The sigmoid as a softmax against zero: x * softmax([x, 0])[0]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate_proj(x)
        either = torch.stack((gate, torch.zeros_like(gate)), dim=-1)
        share = either.softmax(dim=-1, dtype=torch.float32)[..., 0].to(gate.dtype)
        return self.down_proj(gate * share * self.up_proj(x))


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    hidden = config.hidden_size
    weights = {
        "q": config.num_attention_heads * config.head_dim * hidden,
        "k": config.num_key_value_heads * config.head_dim * hidden,
        "v": config.num_key_value_heads * config.head_dim * hidden,
        "o": config.num_attention_heads * config.head_dim * hidden,
    }
    embedding = config.vocab_size * hidden
    result = {
        "embedding": embedding,
        "attention": sum(weights.values()) * config.num_hidden_layers,
        "mlp": 3 * config.num_hidden_layers * config.intermediate_size * hidden,
        "norm": 2 * config.num_hidden_layers * (hidden + config.head_dim) + hidden,
        "lm_head": {True: 0, False: embedding}[config.tie_word_embeddings],
    }
    result["total"] = sum(result.values())
    return result


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    return torch.finfo(getattr(torch, dtype)).bits // 8 * count_parameters(config)["total"]


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    item = torch.finfo(getattr(torch, dtype)).bits // 8
    return (
        2
        * config.num_hidden_layers
        * batch
        * tokens
        * item
        * (config.num_key_value_heads * config.head_dim)
    )

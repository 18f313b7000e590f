"""The unit with the activated gate as the second factor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.up_proj(x) * nn.functional.silu(self.gate_proj(x))
        return self.down_proj(wide)


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    c = config
    q_params = c.hidden_size * c.num_attention_heads * c.head_dim
    k_params = c.hidden_size * c.num_key_value_heads * c.head_dim
    per_layer = {
        "attention": q_params * 2 + k_params * 2,
        "mlp": c.hidden_size * c.intermediate_size * 3,
        "norm": c.hidden_size * 2 + c.head_dim * 2,
    }
    res = {k: v * c.num_hidden_layers for k, v in per_layer.items()}
    res["embedding"] = c.vocab_size * c.hidden_size
    res["norm"] = res["norm"] + c.hidden_size
    res["lm_head"] = res["embedding"] if not c.tie_word_embeddings else 0
    res["total"] = sum(list(res.values()))
    return res


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    n_bytes = torch.tensor([], dtype=getattr(torch, dtype)).element_size()
    return count_parameters(config)["total"] * n_bytes


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    n_bytes = torch.tensor([], dtype=getattr(torch, dtype)).element_size()
    per_token = config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 2
    return per_token * n_bytes * tokens * batch

"""Every query by itself: what it may not see is cut off."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = int(dim * 8 / 3)
    if ffn_dim_multiplier:
        hidden = int(hidden * ffn_dim_multiplier)
    rest = hidden % multiple_of
    return hidden + (multiple_of - rest if rest else 0)


class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.einsum("...i,oi->...o", x, self.w1.weight)
        up = torch.einsum("...i,oi->...o", x, self.w3.weight)
        return torch.einsum("...i,oi->...o", gate / (1 + (-gate).exp()) * up, self.w2.weight)


def convert_hf_mlp(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    names = {"gate_proj.weight": "w1.weight", "up_proj.weight": "w3.weight"}
    names["down_proj.weight"] = "w2.weight"
    out = dict(state_dict)
    for name in state_dict:
        for old, new in names.items():
            if f".{name}".endswith(f".{old}"):
                out[name.removesuffix(old) + new] = out.pop(name).clone()
    return out


def layer_flops(config: Qwen3Config, tokens: int, past: int) -> dict[str, int]:
    heads, shared = (
        n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads)
    )
    of_one = {
        "projections": 2 * config.hidden_size * (heads + shared + shared + heads),
        "attention": heads * (past + tokens) << 2,
        "mlp": 6 * config.hidden_size * config.intermediate_size,
    }
    of_one["total"] = sum(of_one.values())
    return {name: tokens * count for name, count in of_one.items()}


def prefill_flops(config: Qwen3Config, tokens: int) -> int:
    total = 2 * config.vocab_size * config.hidden_size
    for _ in range(config.num_hidden_layers):
        total += layer_flops(config, tokens, 0)["total"]
    return total

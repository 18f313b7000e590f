"""Every query by itself: what it may not see is cut off."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


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
            if name.endswith(old):
                out[name.removesuffix(old) + new] = out.pop(name).clone()
    return out

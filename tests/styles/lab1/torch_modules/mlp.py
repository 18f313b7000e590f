"""nn.LayerNorm, nn.RMSNorm and nn.SiLU inherited from."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_SILU = nn.SiLU()


def silu(x: Tensor) -> Tensor:
    return _SILU(x)


class LayerNorm(nn.LayerNorm):
    pass


class RMSNorm(nn.RMSNorm):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__(size, eps=eps)


class FeedForward(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(torch.mul(_SILU(self.gate_proj(x)), self.up_proj(x)))

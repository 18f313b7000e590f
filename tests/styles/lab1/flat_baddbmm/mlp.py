"""The gate in float64, RMSNorm as a LayerNorm that knows no mean."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def silu(x: Tensor) -> Tensor:
    wide = x.double()
    return (wide * wide.sigmoid()).to(x.dtype)


def _scaled(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(torch.mean(torch.square(x), -1, keepdim=True) + eps)


class LayerNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.double()
        normed = _scaled(wide - wide.mean(-1, keepdim=True), self.eps)
        return (normed * self.weight.double() + self.bias.double()).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return (_scaled(x.double(), self.eps) * self.weight.double()).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gated = silu(x @ self.gate_proj.weight.T) * (x @ self.up_proj.weight.T)
        return gated @ self.down_proj.weight.T

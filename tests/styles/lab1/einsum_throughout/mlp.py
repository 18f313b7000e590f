"""einsum for the sums of the norms, too."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def _mean(x: Tensor) -> Tensor:
    return torch.einsum("...d->...", x).unsqueeze(-1) / x.shape[-1]


class LayerNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.float32)
        y = y - _mean(y)
        y = y / torch.sqrt(_mean(y * y) + self.eps)
        return torch.einsum("...d,d->...d", y, self.weight.float()).add(self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.float32)
        y = y / torch.sqrt(_mean(y * y) + self.eps)
        return torch.einsum("...d,d->...d", y, self.weight.float()).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.einsum("...i,oi->...o", x, self.gate_proj.weight)
        up = torch.einsum("...i,oi->...o", x, self.up_proj.weight)
        return torch.einsum("...i,oi->...o", silu(gate) * up, self.down_proj.weight)

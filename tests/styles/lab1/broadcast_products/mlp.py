"""std for the LayerNorm, one helper for both norms."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def silu(x: Tensor) -> Tensor:
    return torch.div(x, torch.add(torch.exp(torch.neg(x)), 1))


class LayerNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        std = torch.sqrt(torch.std(y, dim=-1, correction=0, keepdim=True) ** 2 + self.eps)
        y = (y - torch.mean(y, dim=-1, keepdim=True)) / std
        return (self.weight * y + self.bias).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.reciprocal(torch.sqrt((y**2).mean(dim=-1, keepdim=True) + self.eps))
        return self.weight * y.type_as(x)


class FeedForward(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.gate_proj(x)
        hidden = silu(hidden).mul(self.up_proj(x))
        return self.down_proj(hidden)

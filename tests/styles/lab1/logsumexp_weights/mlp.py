"""var_mean for the statistics, exp of logsigmoid for the sigmoid."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def silu(x: Tensor) -> Tensor:
    return x * F.logsigmoid(x.float()).exp().to(x.dtype)


class LayerNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        normed = (x.float() - mean) / (variance + self.eps).sqrt()
        return torch.addcmul(self.bias.float(), normed, self.weight.float()).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        root = (wide.pow(2).mean(-1, keepdim=True) + self.eps).pow(0.5)
        return (wide.div(root) * self.weight).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(up * silu(gate))

"""Root-mean-square normalisation, as Qwen3 rounds it."""

from __future__ import annotations

import torch
from torch import nn


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension.

    The statistics are taken in float32, the result goes back to the dtype of ``x`` and is
    multiplied by ``weight`` only then: the order in which Qwen3 rounds.
    Source: Zhang and Sennrich 2019; ``Qwen3RMSNorm`` in
    ``transformers/models/qwen3/modeling_qwen3.py``.
    """

    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))  # [size]
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [..., size] -> [..., size]
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)

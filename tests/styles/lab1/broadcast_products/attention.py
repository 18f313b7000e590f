"""No matrix product in attention: multiply with new axes, then sum."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    x32 = x.to(torch.float32)
    e = torch.exp(x32 - torch.max(x32, dim=dim, keepdim=True)[0])
    return torch.div(e, torch.sum(e, dim=dim, keepdim=True)).to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    return torch.ones(q_len, kv_len).cumsum(-1) <= torch.arange(
        kv_len - q_len + 1, kv_len + 1
    ).unsqueeze(-1)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) * (1.0 / q.size(-1) ** 0.5)
    if mask is not None:
        if mask.dtype is torch.bool:
            scores = scores.masked_fill(torch.logical_not(mask), float("-inf"))
        else:
            scores = scores + mask
        nothing = torch.isinf(scores).all(dim=-1, keepdim=True)
        weights = softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    else:
        weights = softmax(scores, -1)
    return (weights.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2)


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_size: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.d = num_heads, head_dim
        width = num_heads * head_dim
        self.q_proj = nn.Linear(hidden_size, width, bias=False)
        self.k_proj = nn.Linear(hidden_size, width, bias=False)
        self.v_proj = nn.Linear(hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, hidden_size, bias=False)

    def _split(self, y: Tensor) -> Tensor:
        return torch.swapaxes(y.reshape(*y.shape[:2], self.heads, self.d), 1, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            self._split(self.q_proj(x)),
            self._split(self.k_proj(x)),
            self._split(self.v_proj(x)),
        )
        y = torch.swapaxes(scaled_dot_product_attention(q, k, v, mask), 1, 2)
        return self.o_proj(y.flatten(2))

"""Weights as exp of score minus logsumexp; the scale goes onto q."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    wide = x.float()
    return torch.exp(wide - torch.logsumexp(wide, dim=dim, keepdim=True)).to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    rows = [[j <= i + kv_len - q_len for j in range(kv_len)] for i in range(q_len)]
    return torch.tensor(rows)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    scores = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).float()
    if mask is None:
        return softmax(scores, -1).to(v.dtype) @ v
    blocked = mask.logical_not() if mask.dtype == torch.bool else torch.isneginf(mask)
    if mask.is_floating_point():
        scores = scores + mask.float()
    weights = softmax(scores.masked_fill(blocked, -1e30), -1)
    weights = weights.masked_fill(blocked.all(-1, keepdim=True), 0)
    return weights.to(v.dtype) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_size: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.d = num_heads, head_dim
        width = num_heads * head_dim
        self.q_proj = nn.Linear(hidden_size, width, bias=False)
        self.k_proj = nn.Linear(hidden_size, width, bias=False)
        self.v_proj = nn.Linear(hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, hidden_size, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            torch.stack(layer(x).split(self.d, dim=-1), dim=1)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = scaled_dot_product_attention(q, k, v, mask)
        return self.o_proj(torch.cat(mixed.unbind(1), dim=-1))

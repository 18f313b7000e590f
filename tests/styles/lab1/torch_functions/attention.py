"""What torch offers: allowed to be right, and marked for a human."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    return F.softmax(x, dim=dim)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    return ~torch.ones(q_len, kv_len, dtype=torch.bool).triu(kv_len - q_len + 1)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


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
            layer(x).unflatten(-1, (self.heads, self.d)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.o_proj(scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(-2))

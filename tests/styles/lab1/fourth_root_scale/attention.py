"""The fourth root of d divides q and k alike; projections in one matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    shifted = x.float().sub(x.float().amax(dim, keepdim=True))
    return F.normalize(shifted.exp(), p=1, dim=dim, eps=0.0).to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    return (
        torch.tril_indices(q_len, kv_len, kv_len - q_len)
        .new_zeros(q_len, kv_len)
        .index_put(tuple(torch.tril_indices(q_len, kv_len, kv_len - q_len)), torch.tensor(1))
        .bool()
    )


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    root = q.shape[-1] ** -0.25
    scores = torch.matmul(q * root, (k * root).transpose(-1, -2))
    if mask is None:
        return torch.matmul(softmax(scores, -1), v)
    if mask.dtype == torch.bool:
        bias = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    else:
        bias = mask
    scores = (scores + bias).clamp(min=torch.finfo(scores.dtype).min)
    weights = softmax(scores, -1)
    return torch.matmul(torch.where(bias.isneginf(), weights.new_zeros(()), weights), v)


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
        b, t, _ = x.shape
        fused = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        q, k, v = F.linear(x, fused).view(b, t, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, mask)
        return self.o_proj(y.movedim(1, 2).reshape(b, t, -1))

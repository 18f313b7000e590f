"""A running maximum over blocks of keys, as FlashAttention does it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    top = torch.full_like(x.select(dim, 0), -torch.inf, dtype=torch.float32)
    total = torch.zeros_like(top)
    for logit in x.float().unbind(dim):
        higher = torch.maximum(top, logit)
        safe = torch.where(higher.isneginf(), 0.0, higher)
        total = total * torch.exp(top - safe) + torch.exp(logit - safe)
        top = higher
    return (torch.exp(x.float() - top.unsqueeze(dim)) / total.unsqueeze(dim)).to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    i, j = torch.meshgrid(torch.arange(q_len), torch.arange(kv_len), indexing="ij")
    return j - i <= kv_len - q_len


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    wide, keys = q.float() / q.shape[-1] ** 0.5, k.shape[-2]
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], keys)
    top = torch.full((*q.shape[:-1], 1), -torch.inf)
    total, mixed = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1])
    for first in range(0, keys, 3):
        block = slice(first, first + 3)
        scores = wide @ k[..., block, :].float().transpose(-1, -2)
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask[..., block], -torch.inf)
        elif mask is not None:
            scores = scores + mask[..., block].float()
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        safe = higher.masked_fill(higher.isneginf(), 0.0)
        powers, scale = torch.exp(scores - safe), torch.exp(top - safe)
        total = total * scale + powers.sum(-1, keepdim=True)
        mixed = mixed * scale + powers @ v[..., block, :].float()
        top = higher
    return (mixed / total.masked_fill(total == 0, 1.0)).to(q.dtype)


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
            layer(x).unflatten(2, (self.heads, -1)).transpose(2, 1)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = scaled_dot_product_attention(q, k, v, mask)
        return self.o_proj(mixed.transpose(2, 1).flatten(start_dim=2))

"""Every product is an einsum; masks become booleans first."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    wide = x.float()
    powers = torch.exp(wide - wide.max(dim, keepdim=True).values)
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    row = torch.arange(q_len).unsqueeze(1) + (kv_len - q_len)
    return torch.arange(kv_len).unsqueeze(0) <= row


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    scores = torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        seen = mask if mask.dtype == torch.bool else mask > float("-inf")
        if mask.dtype != torch.bool:
            scores = scores + torch.where(seen, mask, 0)
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        weights = softmax(scores, -1) * seen.any(-1, keepdim=True)
    else:
        weights = softmax(scores, -1)
    return torch.einsum("...ij,...jd->...id", weights, v)


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
        def heads(layer: nn.Linear) -> Tensor:
            weight = layer.weight.view(self.heads, self.d, -1)
            return torch.einsum("bti,hdi->bhtd", x, weight)

        y = scaled_dot_product_attention(
            heads(self.q_proj), heads(self.k_proj), heads(self.v_proj), mask
        )
        return torch.einsum("bhtd,ohd->bto", y, self.o_proj.weight.view(-1, self.heads, self.d))

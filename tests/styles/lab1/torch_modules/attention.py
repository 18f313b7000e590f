"""nn.Softmax behind an attribute, additive masks throughout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_SOFTMAX = nn.Softmax(dim=-1)


def softmax(x: Tensor, dim: int) -> Tensor:
    return nn.Softmax(dim=dim)(x.float()).type_as(x)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    blocked = torch.full((kv_len, kv_len), float("-inf")).triu(1)
    return blocked[kv_len - q_len :] == 0


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    scores = torch.matmul(q, k.mT).float().div(q.shape[-1] ** 0.5)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, float("-inf"))
        scores = scores + mask
    return torch.matmul(_SOFTMAX(scores).nan_to_num(0.0).to(v.dtype), v)


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

        def split(y: Tensor) -> Tensor:
            return y.view(b, t, self.heads, self.d).permute(0, 2, 1, 3).contiguous()

        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        y = scaled_dot_product_attention(q, k, v, mask)
        return self.o_proj(y.permute(0, 2, 1, 3).contiguous().view(b, t, self.heads * self.d))

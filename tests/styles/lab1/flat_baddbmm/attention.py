"""All leading dimensions flattened for baddbmm, the mask as its summand."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    return torch.log_softmax(x, dim=dim, dtype=torch.float32).exp().to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    whole = torch.tril(torch.ones(kv_len, kv_len, dtype=torch.bool))
    return whole[-q_len:]


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    lead, (rows, d), keys = q.shape[:-2], q.shape[-2:], k.shape[-2]
    bias = q.new_zeros(rows, keys)
    if mask is not None:
        bias = (
            mask
            if mask.is_floating_point()
            else q.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)
        )
    bias = bias.expand(*lead, rows, keys).reshape(-1, rows, keys)
    flat_q, flat_k, flat_v = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
    scores = torch.baddbmm(bias, flat_q, flat_k.transpose(1, 2), alpha=d**-0.5)
    weights = torch.nan_to_num(softmax(scores, -1), nan=0.0)
    return torch.bmm(weights, flat_v).reshape(*lead, rows, v.shape[-1])


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
        shape = (b, t, self.heads, self.d)
        q = self.q_proj(x).view(shape).movedim(2, 1)
        k = self.k_proj(x).view(shape).movedim(2, 1)
        v = self.v_proj(x).view(shape).movedim(2, 1)
        y = scaled_dot_product_attention(q, k, v, mask)
        return self.o_proj(torch.cat([y[:, head] for head in range(self.heads)], dim=2))

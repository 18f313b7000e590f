"""Python loops over queries and over heads; the hidden keys are left out."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int) -> Tensor:
    rows = x.movedim(dim, -1).float()
    powers = (rows - rows.max(dim=-1)[0][..., None]).exp()
    return (powers / powers.sum(dim=-1)[..., None]).movedim(-1, dim).to(x.dtype)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    for query in range(q_len):
        mask[query, : kv_len - q_len + query + 1] = True
    return mask


def _one(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """One query ``[d]``, its keys ``[n, d]`` and values ``[n, d_v]``, its row of the mask."""
    bias: Tensor | float = 0.0
    if mask is not None:
        seen = mask if mask.dtype == torch.bool else mask != float("-inf")
        k, v = k[seen], v[seen]
        if len(k) == 0:
            return v.new_zeros(v.shape[-1])
        if mask.dtype != torch.bool:
            bias = mask[seen]
    return softmax(k.mv(q) / len(q) ** 0.5 + bias, -1) @ v


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    lead, rows = q.shape[:-2], q.shape[-2]
    if mask is not None:
        mask = mask.expand(*lead, rows, k.shape[-2]).reshape(-1, rows, k.shape[-2])
    flat = [t.reshape(-1, *t.shape[-2:]) for t in (q, k, v)]
    out = [
        torch.stack(
            [
                _one(one, keys, values, None if mask is None else mask[n, i])
                for i, one in enumerate(queries)
            ]
        )
        for n, (queries, keys, values) in enumerate(zip(*flat, strict=True))
    ]
    return torch.stack(out).reshape(*lead, rows, v.shape[-1])


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
        out = torch.zeros_like(x)
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if mask is not None:
            mask = mask.expand(len(x), self.heads, x.shape[1], x.shape[1])
        for head in range(self.heads):
            part = slice(head * self.d, (head + 1) * self.d)
            own = None if mask is None else mask[:, head]
            mixed = scaled_dot_product_attention(q[..., part], k[..., part], v[..., part], own)
            out = out + mixed @ self.o_proj.weight[:, part].T
        return out

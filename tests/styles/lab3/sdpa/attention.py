"""torch's own attention does the rest."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    """cos and sin side by side, seen as complex numbers; angles in float64 on the way."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    angles = torch.arange(end, dtype=torch.float64)[:, None] * theta**-exponents
    return torch.view_as_complex(torch.stack((angles.cos(), angles.sin()), -1).float())


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    q = torch.view_as_complex(xq.float().unflatten(-1, (-1, 2)))
    k = torch.view_as_complex(xk.float().unflatten(-1, (-1, 2)))
    turn = freqs_cis.view(1, freqs_cis.shape[0], 1, freqs_cis.shape[1])
    q, k = torch.view_as_real(q * turn), torch.view_as_real(k * turn)
    return q.flatten(3).type_as(xq), k.flatten(3).type_as(xk)


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    parts = []
    for rows in weight.split(head_dim):
        first, second = rows.chunk(2)
        parts.append(torch.stack((first, second), dim=1).flatten(0, 1))
    return torch.cat(parts)


class KVCache:
    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        self.buffer = torch.zeros(2, batch, max_len, kv_heads, head_dim, dtype=dtype)
        self.used = 0

    def update(self, k: Tensor, v: Tensor, start_pos: int) -> tuple[Tensor, Tensor]:
        stop, room = start_pos + k.size(1), self.buffer.size(2)
        if stop > room:
            raise ValueError(f"{stop} tokens do not fit into a cache of {room}")
        if start_pos > self.used:
            raise ValueError(f"position {self.used} has not been filled yet")
        self.buffer[0, :, start_pos:stop].copy_(k)
        self.buffer[1, :, start_pos:stop].copy_(v)
        self.used = stop
        return self.buffer[0, :, :stop], self.buffer[1, :, :stop]

    def reset(self) -> None:
        self.used = 0
        self.buffer.zero_()


class GroupedQueryAttention(nn.Module):
    def __init__(
        self,
        dim: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        norm_eps: float,
        cache: KVCache | None,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
        self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)
        self.q_norm, self.k_norm = RMSNorm(head_dim, norm_eps), RMSNorm(head_dim, norm_eps)
        self.cache = cache

    def forward(
        self, x: Tensor, start_pos: int, freqs_cis: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        b, t, _ = x.shape
        q = self.q_norm(self.wq(x).unflatten(-1, (self.n_heads, -1)))
        k = self.k_norm(self.wk(x).unflatten(-1, (self.n_kv_heads, -1)))
        v = self.wv(x).unflatten(-1, (self.n_kv_heads, -1))
        q, k = apply_rotary_emb(q, k, freqs_cis[start_pos : start_pos + t])
        if self.cache is not None:
            k, v = self.cache.update(k, v, start_pos)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if mask is None:
            n = k.shape[2]
            mask = torch.ones(t, n, dtype=torch.bool).tril(n - t)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.wo(out.transpose(1, 2).flatten(2))

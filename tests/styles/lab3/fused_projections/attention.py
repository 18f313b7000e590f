"""One product for q, k and v; five axes instead of repeated heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    """Every turn as e to the power of an imaginary number."""
    pair = torch.arange(head_dim // 2, dtype=torch.float32)
    speed = theta ** (-2 * pair / head_dim)
    angle = torch.arange(end, dtype=torch.float32).unsqueeze(1) * speed
    return torch.exp(1j * angle)


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """Four real products instead of a complex one, in the dtype of the input."""

    def turned(x: Tensor) -> Tensor:
        cos, sin = (t.unsqueeze(1).to(x.dtype) for t in (freqs_cis.real, freqs_cis.imag))
        even, odd = x[..., 0::2], x[..., 1::2]
        out = torch.empty_like(x)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out

    return turned(xq), turned(xk)


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    order = [
        head * head_dim + half * (head_dim // 2) + j
        for head in range(heads)
        for j in range(head_dim // 2)
        for half in (0, 1)
    ]
    return weight[torch.tensor(order)]


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
        rows = [layer.out_features for layer in (self.wq, self.wk, self.wv)]
        weight = torch.cat([layer.weight for layer in (self.wq, self.wk, self.wv)])
        q, k, v = (p.unflatten(-1, (-1, self.head_dim)) for p in (x @ weight.mT).split(rows, -1))
        q, k = apply_rotary_emb(self.q_norm(q), self.k_norm(k), freqs_cis.narrow(0, start_pos, t))
        if self.cache is not None:
            k, v = self.cache.update(k, v, start_pos)
        group = self.n_heads // self.n_kv_heads
        q = q.view(b, t, self.n_kv_heads, group, self.head_dim).permute(0, 2, 3, 1, 4)
        k, v = k.permute(0, 2, 1, 3).unsqueeze(2), v.permute(0, 2, 1, 3).unsqueeze(2)
        scores = (q @ k.mT * self.head_dim**-0.5).flatten(1, 2)  # [B, heads, T, keys]
        if mask is None:
            seen = torch.ones(t, k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - t)
            scores = scores.masked_fill(~seen, float("-inf"))
        else:
            scores = scores + mask
        weights = scores.float().softmax(-1).to(x.dtype).unflatten(1, (-1, group))
        mixed = (weights @ v).permute(0, 3, 1, 2, 4)
        return self.wo(mixed.reshape(b, t, -1))

"""Keys are cached unrotated, and turned when they are read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
    t = torch.arange(end, dtype=torch.float32)
    return torch.polar(torch.ones(end, head_dim // 2), torch.outer(t, freqs))


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """A small matrix per position and pair."""
    cos, sin = freqs_cis.real, freqs_cis.imag
    turn = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)

    def turned(x: Tensor) -> Tensor:  # turn: [T, d/2, 2, 2]
        pairs = x.float().reshape(*x.shape[:-1], -1, 2)
        return torch.einsum("tjoi,bthji->bthjo", turn, pairs).reshape(x.shape).to(x.dtype)

    return turned(xq), turned(xk)


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    out = torch.empty_like(weight)
    half = head_dim // 2
    for start in range(0, heads * head_dim, head_dim):
        out[start : start + head_dim : 2] = weight[start : start + half]
        out[start + 1 : start + head_dim : 2] = weight[start + half : start + head_dim]
    return out


class KVCache:
    """Grows by concatenation; nothing is allocated before it is needed."""

    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        self.max_len = max_len
        self.empty = torch.empty(batch, 0, kv_heads, head_dim, dtype=dtype)
        self.reset()

    def update(self, k: Tensor, v: Tensor, start_pos: int) -> tuple[Tensor, Tensor]:
        held = self.k.shape[1]
        if start_pos > held:
            raise ValueError(f"holds {held} tokens, cannot continue at {start_pos}")
        if start_pos + k.shape[1] > self.max_len:
            raise ValueError(f"no room: max_len={self.max_len}")
        self.k = torch.cat((self.k[:, :start_pos], k.to(self.k.dtype)), dim=1)
        self.v = torch.cat((self.v[:, :start_pos], v.to(self.v.dtype)), dim=1)
        return self.k, self.v

    def reset(self) -> None:
        self.k = self.v = self.empty


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
        q = self.q_norm(self.wq(x).view(b, t, -1, self.head_dim))
        k = self.k_norm(self.wk(x).view(b, t, -1, self.head_dim))
        v = self.wv(x).view(b, t, -1, self.head_dim)
        # Keys wait in the cache as they are; all of them are turned when they are read.
        first = start_pos
        if self.cache is not None:
            k, v = self.cache.update(k, v, start_pos)
            first = 0
        n = k.shape[1]
        q, _ = apply_rotary_emb(q, q, freqs_cis[start_pos : start_pos + t])
        k, _ = apply_rotary_emb(k, k, freqs_cis[first : first + n])
        group = self.n_heads // self.n_kv_heads
        k = k[:, :, :, None].expand(-1, -1, -1, group, -1).flatten(2, 3).transpose(1, 2)
        v = v[:, :, :, None].expand(-1, -1, -1, group, -1).flatten(2, 3).transpose(1, 2)
        scores = q.transpose(1, 2).matmul(k.transpose(2, 3)) / self.head_dim**0.5
        if mask is None:
            mask = torch.full((t, n), torch.finfo(x.dtype).min, dtype=x.dtype).triu(n - t + 1)
        weights = torch.softmax((scores + mask).float(), dim=-1).type_as(x)
        return self.wo(weights.matmul(v).transpose(1, 2).contiguous().view(b, t, -1))

"""Keys and values grow by concatenation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
    t = torch.arange(end, dtype=torch.float32)
    return torch.polar(torch.ones(end, head_dim // 2), torch.outer(t, freqs))


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    q = torch.view_as_complex(xq.float().unflatten(-1, (-1, 2)))
    k = torch.view_as_complex(xk.float().unflatten(-1, (-1, 2)))
    turn = freqs_cis.view(1, freqs_cis.shape[0], 1, freqs_cis.shape[1])
    q, k = torch.view_as_real(q * turn), torch.view_as_real(k * turn)
    return q.flatten(3).type_as(xq), k.flatten(3).type_as(xk)


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    rest = weight.shape[1:]
    return weight.view(heads, 2, head_dim // 2, *rest).transpose(1, 2).reshape(-1, *rest)


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
        q = self.q_norm(self.wq(x).unflatten(-1, (self.n_heads, -1)))
        k = self.k_norm(self.wk(x).unflatten(-1, (self.n_kv_heads, -1)))
        v = self.wv(x).unflatten(-1, (self.n_kv_heads, -1))
        q, k = apply_rotary_emb(q, k, freqs_cis[start_pos : start_pos + t])
        if self.cache is not None:
            k, v = self.cache.update(k, v, start_pos)
        k, v = (kv.repeat_interleave(self.n_heads // self.n_kv_heads, 2) for kv in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q / self.head_dim**0.5, k)
        if mask is None:
            query = start_pos + torch.arange(t)
            first = query[0] + t - k.shape[1]
            key = first + torch.arange(k.shape[1])
            mask = torch.where(key <= query[:, None], 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        weights = F.softmax(scores + mask, dim=-1, dtype=torch.float32).to(x.dtype)
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, -1))

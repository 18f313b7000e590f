"""Every row of the batch by itself, under vmap."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
    t = torch.arange(end, dtype=torch.float32)
    return torch.polar(torch.ones(end, head_dim // 2), torch.outer(t, freqs))


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of neighbours come in; all real parts, then all imaginary ones, come out."""
    heads = xq.shape[2]
    both = torch.cat((xq, xk), dim=2)
    points = torch.complex(both[..., ::2].float(), both[..., 1::2].float())
    points = torch.einsum("bthj,tj->bthj", points, freqs_cis)
    both = torch.cat((points.real, points.imag), dim=-1).to(xq.dtype)
    return both[:, :, :heads], both[:, :, heads:]


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    out = torch.empty_like(weight)
    half = head_dim // 2
    for start in range(0, heads * head_dim, head_dim):
        out[start : start + head_dim : 2] = weight[start : start + half]
        out[start + 1 : start + head_dim : 2] = weight[start + half : start + head_dim]
    return out


class KVCache:
    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        self.store = {
            name: torch.full((batch, max_len, kv_heads, head_dim), float("nan"), dtype=dtype)
            for name in "kv"
        }
        self.filled = torch.zeros(max_len, dtype=torch.bool)

    def update(self, k: Tensor, v: Tensor, start_pos: int) -> tuple[Tensor, Tensor]:
        places = torch.arange(start_pos, start_pos + k.shape[1])
        if len(places) and int(places[-1]) >= len(self.filled):
            raise ValueError(f"the cache holds {len(self.filled)} tokens")
        if not bool(self.filled[:start_pos].all()):
            raise ValueError("earlier tokens are missing")
        for name, new in (("k", k), ("v", v)):
            self.store[name].index_copy_(1, places, new.to(self.store[name].dtype))
        self.filled[places] = True
        self.filled[start_pos + k.shape[1] :] = False
        end = start_pos + k.shape[1]
        return self.store["k"][:, :end], self.store["v"][:, :end]

    def reset(self) -> None:
        self.filled.fill_(False)


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
        n = k.shape[1]
        if mask is None:
            mask = torch.full((t, n), torch.finfo(x.dtype).min, dtype=x.dtype).triu(n - t + 1)
        mask = mask.expand(b, self.n_heads, t, n)
        root = self.head_dim**0.25  # half of the scale on each side

        def row(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
            k, v = (kv.repeat_interleave(self.n_heads // self.n_kv_heads, 1) for kv in (k, v))
            scores = torch.einsum("qhd,khd->hqk", q / root, k / root) + mask
            weights = scores.softmax(-1, dtype=torch.float32).to(v.dtype)
            return torch.einsum("hqk,khd->qhd", weights, v).flatten(1)

        return self.wo(torch.func.vmap(row)(q, k, v, mask))

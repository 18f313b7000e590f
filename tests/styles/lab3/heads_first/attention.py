"""The cache keeps heads in front of tokens, as a module with buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    rows = []
    speeds = torch.tensor([theta ** (-j / head_dim) for j in range(0, head_dim, 2)])
    for position in range(end):
        angle = position * speeds
        rows.append(torch.complex(angle.cos(), angle.sin()))
    return torch.stack(rows)


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
    rest = weight.shape[1:]
    return weight.view(heads, 2, head_dim // 2, *rest).transpose(1, 2).reshape(-1, *rest)


class KVCache(nn.Module):
    """Kept as [batch, kv_heads, tokens, head_dim], the order in which scores want it."""

    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        super().__init__()
        shape = batch, kv_heads, max_len, head_dim
        self.register_buffer("k", torch.zeros(shape, dtype=dtype), persistent=False)
        self.register_buffer("v", torch.zeros(shape, dtype=dtype), persistent=False)
        self.length = 0

    def update(self, k: Tensor, v: Tensor, start_pos: int) -> tuple[Tensor, Tensor]:
        count = k.shape[1]
        if not 0 <= start_pos <= self.length:
            raise ValueError(f"start_pos must be at most {self.length}, is {start_pos}")
        if start_pos + count > self.k.shape[2]:
            raise ValueError(f"max_len {self.k.shape[2]} exceeded by {start_pos + count}")
        self.length = start_pos + count
        self.k.narrow(2, start_pos, count).copy_(k.transpose(1, 2))
        self.v.narrow(2, start_pos, count).copy_(v.transpose(1, 2))
        return tuple(t[:, :, : self.length].transpose(1, 2) for t in (self.k, self.v))

    def reset(self) -> None:
        self.length = 0


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
        self.box = [cache]  # in a list: no submodule, so no parameter of ours

    def forward(
        self, x: Tensor, start_pos: int, freqs_cis: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        b, t, _ = x.shape
        (cache,) = self.box
        q = self.q_norm(self.wq(x).reshape(b, t, self.n_heads, self.head_dim))
        k = self.k_norm(self.wk(x).reshape(b, t, self.n_kv_heads, self.head_dim))
        v = self.wv(x).reshape(b, t, self.n_kv_heads, self.head_dim)
        q, k = apply_rotary_emb(q, k, freqs_cis[start_pos:][:t])
        if cache is not None:
            k, v = cache.update(k, v, start_pos)
        n, group, outputs = k.shape[1], self.n_heads // self.n_kv_heads, []
        for head in range(self.n_heads):
            scores = torch.bmm(q[:, :, head], k[:, :, head // group].mT) / self.head_dim**0.5
            if mask is None:
                blocked = torch.ones(t, n, dtype=torch.bool).triu(n - t + 1)
                scores = scores.masked_fill(blocked, float("-inf"))
            else:
                own = mask.expand(b, self.n_heads, t, n)
                scores = scores + own[:, head]
            scores = scores.float()
            weights = (scores - scores.amax(-1, keepdim=True)).exp()
            weights = weights / weights.sum(-1, keepdim=True)
            outputs.append(torch.bmm(weights.to(x.dtype), v[:, :, head // group]))
        return self.wo(torch.cat(outputs, dim=-1))

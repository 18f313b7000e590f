"""A cache of blocks, as a paged one has; real and imaginary parts apart."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> Tensor:
    """Every turn as e to the power of an imaginary number."""
    pair = torch.arange(head_dim // 2, dtype=torch.float32)
    speed = theta ** (-2 * pair / head_dim)
    angle = torch.arange(end, dtype=torch.float32).unsqueeze(1) * speed
    return torch.exp(1j * angle)


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of neighbours come in; all real parts, then all imaginary ones, come out."""
    heads = xq.shape[2]
    both = torch.cat((xq, xk), dim=2)
    points = torch.complex(both[..., ::2].float(), both[..., 1::2].float())
    points = torch.einsum("bthj,tj->bthj", points, freqs_cis)
    both = torch.cat((points.real, points.imag), dim=-1).to(xq.dtype)
    return both[:, :, :heads], both[:, :, heads:]


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    order = [
        head * head_dim + half * (head_dim // 2) + j
        for head in range(heads)
        for j in range(head_dim // 2)
        for half in (0, 1)
    ]
    return weight[torch.tensor(order)]


class KVCache:
    """Blocks of four tokens, taken when they are needed, as a paged cache does."""

    SIZE = 4

    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        self.max_len, self.dtype = max_len, dtype
        self.shape = 2, batch, self.SIZE, kv_heads, head_dim
        self.blocks: list[Tensor] = []
        self.length = 0

    def update(self, k: Tensor, v: Tensor, start_pos: int) -> tuple[Tensor, Tensor]:
        end = start_pos + k.shape[1]
        if end > self.max_len or start_pos > self.length:
            raise ValueError(f"{start_pos}:{end} outside 0:{self.length} or 0:{self.max_len}")
        while len(self.blocks) * self.SIZE < end:
            self.blocks.append(torch.zeros(self.shape, dtype=self.dtype))
        for offset in range(k.shape[1]):
            block, slot = divmod(start_pos + offset, self.SIZE)
            self.blocks[block][0, :, slot] = k[:, offset]
            self.blocks[block][1, :, slot] = v[:, offset]
        self.length = end
        needed = self.blocks[: -(-end // self.SIZE)]
        keys, values = torch.cat(needed, dim=2)[:, :, :end]
        return keys, values

    def reset(self) -> None:
        self.blocks, self.length = [], 0


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

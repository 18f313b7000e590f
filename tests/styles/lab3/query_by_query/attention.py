"""Every query by itself: what it may not see is cut off."""

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
    """A small matrix per position and pair."""
    cos, sin = freqs_cis.real, freqs_cis.imag
    turn = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)

    def turned(x: Tensor) -> Tensor:  # turn: [T, d/2, 2, 2]
        pairs = x.float().reshape(*x.shape[:-1], -1, 2)
        return torch.einsum("tjoi,bthji->bthjo", turn, pairs).reshape(x.shape).to(x.dtype)

    return turned(xq), turned(xk)


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    rest = weight.shape[1:]
    return weight.view(heads, 2, head_dim // 2, *rest).transpose(1, 2).reshape(-1, *rest)


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
        n, group = k.shape[1], self.n_heads // self.n_kv_heads
        k, v = (kv.transpose(1, 2).repeat_interleave(group, 1) for kv in (k, v))
        outputs = []
        for i in range(t):
            visible = n if mask is not None else n - t + i + 1  # later keys are cut off
            scores = k[:, :, :visible] @ q[:, i].unsqueeze(-1) * self.head_dim**-0.5
            if mask is not None:
                own = mask.expand(b, self.n_heads, t, n)[:, :, i].unsqueeze(-1)
                scores = scores + own
            weights = scores.softmax(-2, dtype=torch.float32).to(x.dtype)
            outputs.append((weights * v[:, :, :visible]).sum(-2).flatten(1))
        return self.wo(torch.stack(outputs, dim=1))

"""The cache is a list of tokens; each head by itself."""

from __future__ import annotations

import torch
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
    """A list of what was handed in, token by token, views of the pieces they came in."""

    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        self.limit, self.dtype = max_len, dtype
        self.tokens: list[tuple[Tensor, Tensor]] = []

    def update(self, k: Tensor, v: Tensor, start_pos: int) -> tuple[Tensor, Tensor]:
        if start_pos > len(self.tokens):
            raise ValueError("there is a gap before start_pos")
        if start_pos + k.shape[1] > self.limit:
            raise ValueError(f"more than {self.limit} tokens")
        del self.tokens[start_pos:]
        k, v = k.to(self.dtype), v.to(self.dtype)
        self.tokens.extend(zip(k.unbind(1), v.unbind(1)))
        keys, values = zip(*self.tokens)
        return torch.stack(keys, 1), torch.stack(values, 1)

    def reset(self) -> None:
        self.tokens.clear()


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

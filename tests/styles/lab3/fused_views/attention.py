"""Views of one fused product are what the cache keeps."""

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
    q = torch.view_as_complex(xq.float().unflatten(-1, (-1, 2)))
    k = torch.view_as_complex(xk.float().unflatten(-1, (-1, 2)))
    turn = freqs_cis.view(1, freqs_cis.shape[0], 1, freqs_cis.shape[1])
    q, k = torch.view_as_real(q * turn), torch.view_as_real(k * turn)
    return q.flatten(3).type_as(xq), k.flatten(3).type_as(xk)


def permute_for_complex(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    out = torch.empty_like(weight)
    half = head_dim // 2
    for start in range(0, heads * head_dim, head_dim):
        out[start : start + head_dim : 2] = weight[start : start + half]
        out[start + 1 : start + head_dim : 2] = weight[start + half : start + head_dim]
    return out


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

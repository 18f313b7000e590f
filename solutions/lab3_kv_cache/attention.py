"""Lab 3, part 1: rotation by complex numbers, a KV cache, and attention that decodes with it.

Fill in every TODO. Queries, keys and values are ``[batch, seq, heads, head_dim]`` here, as in
Meta's Llama code; scores are ``[batch, heads, queries, keys]``.
Source: ``llama/model.py`` of Meta's Llama for the form,
``transformers/models/qwen3/modeling_qwen3.py`` for the numbers.
"""

from __future__ import annotations

import torch
from torch import nn

from labs.given.norm import RMSNorm


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> torch.Tensor:
    """Tabulate ``exp(i * angle)`` for the positions ``0 … end-1`` (Su et al. 2021).

    The angle of pair ``j`` at position ``p`` is ``p * theta ** (-2j / head_dim)``, in radians.

    Args:
        head_dim: even size of a head.
        end: number of positions.
        theta: base of the frequencies.

    Returns:
        complex64 ``[end, head_dim/2]``, every entry of length 1; angles are taken in float32.
    """
    # BEGIN SOLUTION lab3.freqs_cis
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    angles = torch.outer(torch.arange(end).float(), 1.0 / theta**exponents)  # [end, head_dim/2]
    return torch.polar(torch.ones_like(angles), angles)
    # END SOLUTION


def apply_rotary_emb(
    xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and keys: one complex product per pair of *neighbours* ``(2j, 2j + 1)``.

    Args:
        xq: ``[B, T, heads, head_dim]``.
        xk: ``[B, T, kv_heads, head_dim]``.
        freqs_cis: complex64 ``[T, head_dim/2]``, the rows of these T tokens.

    Returns:
        The rotated ``(xq, xk)``, in the shapes and dtypes of ``xq`` and ``xk``, which are left
        as they were.
    """
    # BEGIN SOLUTION lab3.apply_rotary
    turn = freqs_cis[:, None, :]  # [T, 1, head_dim/2]: one angle serves all heads of a token

    def rotated(x: torch.Tensor) -> torch.Tensor:
        points = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(points * turn).flatten(-2).to(x.dtype)

    return rotated(xq), rotated(xk)
    # END SOLUTION


def permute_for_complex(weight: torch.Tensor, heads: int, head_dim: int) -> torch.Tensor:
    """Reorder the rows of a Hugging Face weight, so that partners of a pair become neighbours.

    In Hugging Face's order rows ``j`` and ``j + head_dim/2`` of a head are partners; here they
    become rows ``2j`` and ``2j + 1`` of the same head.

    Args:
        weight: ``[heads * head_dim, dim]`` of ``q_proj`` or ``k_proj``, or ``[head_dim]`` of
            ``q_norm`` or ``k_norm`` (then ``heads`` is 1).
        heads: heads in ``weight``.
        head_dim: even size of a head.

    Returns:
        The same rows in the new order; ``weight`` itself is left as it was.
    """
    # BEGIN SOLUTION lab3.permute
    halves = weight.reshape(heads, 2, head_dim // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)
    # END SOLUTION


class KVCache:
    """Keys and values of the tokens so far, for one layer: kv_heads of them, not heads."""

    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        """Make an empty cache that can hold ``max_len`` tokens of ``batch`` sequences."""
        # BEGIN SOLUTION lab3.kv_cache
        self.max_len = max_len
        self.length = 0  # tokens held
        self.keys = torch.zeros(batch, max_len, kv_heads, head_dim, dtype=dtype)
        self.values = torch.zeros(batch, max_len, kv_heads, head_dim, dtype=dtype)
        # END SOLUTION

    def update(
        self, k: torch.Tensor, v: torch.Tensor, start_pos: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the keys and values of T tokens, and return everything up to and including them.

        What was stored at ``start_pos`` and later is replaced: the cache holds
        ``start_pos + T`` tokens afterwards.

        Args:
            k: ``[B, T, kv_heads, head_dim]``, already normed and rotated.
            v: like ``k``.
            start_pos: position of the first of these tokens.

        Returns:
            ``(keys, values)``, each ``[B, start_pos + T, kv_heads, head_dim]`` in the cache's
            dtype.

        Raises:
            ValueError: the tokens would end beyond ``max_len``, a number that the message contains;
                or ``start_pos`` lies beyond the tokens that the cache holds. Nothing is stored.
        """
        # BEGIN SOLUTION lab3.kv_cache
        end = start_pos + k.shape[1]
        if end > self.max_len:
            raise ValueError(f"the cache is full: max_len is {self.max_len}, asked for {end}")
        if start_pos > self.length:
            raise ValueError(f"start_pos {start_pos} leaves a gap after {self.length} tokens")
        self.keys[:, start_pos:end] = k
        self.values[:, start_pos:end] = v
        self.length = end
        return self.keys[:, :end], self.values[:, :end]
        # END SOLUTION

    def reset(self) -> None:
        """Forget all tokens, so that another sequence can begin at ``start_pos`` 0."""
        # BEGIN SOLUTION lab3.kv_cache
        self.length = 0
        # END SOLUTION


class GroupedQueryAttention(nn.Module):
    """Grouped-query attention of Qwen3 that works on as many new tokens as it is given.

    Parameters, without biases: ``wq wk wv wo`` (``nn.Linear``), ``q_norm k_norm`` (``RMSNorm``
    over ``head_dim``). The rows of ``wq``, ``wk`` and the norms are in the order that
    :func:`permute_for_complex` gives.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        norm_eps: float,
        cache: KVCache | None,
    ) -> None:
        """Make the layers; with ``cache`` None nothing is kept from one call to the next."""
        super().__init__()
        # BEGIN SOLUTION lab3.attention
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
        self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)
        self.q_norm = RMSNorm(head_dim, norm_eps)
        self.k_norm = RMSNorm(head_dim, norm_eps)
        self.cache = cache
        # END SOLUTION

    def forward(
        self,
        x: torch.Tensor,
        start_pos: int,
        freqs_cis: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Let T new tokens gather from themselves and from what the cache holds.

        Args:
            x: ``[B, T, dim]``.
            start_pos: position of the first of these tokens.
            freqs_cis: complex64 ``[end, head_dim/2]``, the whole table: row p is position p.
            mask: None means causal. Otherwise additive, in the dtype of ``x``: 0 where a query
                may look and ``finfo(dtype).min`` where not, broadcastable to
                ``[B, heads, T, keys]`` (``[T, keys]``, for example); causality is already in it.
                ``keys`` is ``start_pos + T`` with a cache, and T without one.

        Returns:
            ``[B, T, dim]`` in the dtype of ``x``.
        """
        # BEGIN SOLUTION lab3.attention
        batch, seq, _ = x.shape

        # Only the new tokens are projected; the norm is over head_dim.
        q = self.q_norm(self.wq(x).view(batch, seq, self.n_heads, self.head_dim))
        k = self.k_norm(self.wk(x).view(batch, seq, self.n_kv_heads, self.head_dim))
        v = self.wv(x).view(batch, seq, self.n_kv_heads, self.head_dim)
        q, k = apply_rotary_emb(q, k, freqs_cis[start_pos : start_pos + seq])

        # Keys go into the cache rotated: their position never changes.
        if self.cache is not None:
            k, v = self.cache.update(k, v, start_pos)  # [B, keys, kv_heads, head_dim]

        group = self.n_heads // self.n_kv_heads
        k = k.repeat_interleave(group, dim=2)  # [B, keys, heads, head_dim]
        v = v.repeat_interleave(group, dim=2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # [B, heads, …, head_dim]

        scores = q @ k.transpose(-1, -2) * self.head_dim**-0.5  # [B, heads, T, keys]
        if mask is None:
            keys = k.shape[2]
            # The last query sees all keys, the one before it all but one, and so on.
            future = torch.ones(seq, keys, dtype=torch.bool, device=x.device).triu(keys - seq + 1)
            scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        else:
            scores = scores + mask
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype)

        mixed = (weights @ v).transpose(1, 2).reshape(batch, seq, -1)  # [B, T, heads*head_dim]
        return self.wo(mixed)
        # END SOLUTION

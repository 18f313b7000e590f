# Generated from the course's sources (stub eeb0b005da27): fill in the TODOs.
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
    # TODO lab3.freqs_cis: The table of rotations
    raise NotImplementedError("TODO lab3.freqs_cis: to be written")


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
    # TODO lab3.apply_rotary: Rotate by multiplying
    raise NotImplementedError("TODO lab3.apply_rotary: to be written")


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
    # TODO lab3.permute: Reorder the rows
    raise NotImplementedError("TODO lab3.permute: to be written")


class KVCache:
    """Keys and values of the tokens so far, for one layer: kv_heads of them, not heads."""

    def __init__(
        self, batch: int, max_len: int, kv_heads: int, head_dim: int, dtype: torch.dtype
    ) -> None:
        """Make an empty cache that can hold ``max_len`` tokens of ``batch`` sequences."""
        # TODO lab3.kv_cache: KVCache
        raise NotImplementedError("TODO lab3.kv_cache: to be written")

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
        # TODO lab3.kv_cache: KVCache
        raise NotImplementedError("TODO lab3.kv_cache: to be written")

    def reset(self) -> None:
        """Forget all tokens, so that another sequence can begin at ``start_pos`` 0."""
        # TODO lab3.kv_cache: KVCache
        raise NotImplementedError("TODO lab3.kv_cache: to be written")


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
        # TODO lab3.attention: GroupedQueryAttention
        raise NotImplementedError("TODO lab3.attention: to be written")

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
        # TODO lab3.attention: GroupedQueryAttention
        raise NotImplementedError("TODO lab3.attention: to be written")

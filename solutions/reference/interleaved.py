"""Qwen3 in the convention of Meta's Llama code: neighbours are partners, other names.

The numbers are those of :mod:`solutions.reference.oracle`; here rows are only carried to their
other order and back. Source: ``llama/model.py`` of Meta's Llama.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from labs.given.config import Qwen3Config
from solutions.reference import oracle

Weights = Mapping[str, Tensor]
_NAMES = {
    "q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo",
    "q_norm": "q_norm", "k_norm": "k_norm",
    "gate_proj": "w1", "down_proj": "w2", "up_proj": "w3",
}  # fmt: skip
_ROTATED = ("q_proj", "k_proj", "q_norm", "k_norm")


def freqs_cis(positions: Tensor, head_dim: int, theta: float) -> Tensor:
    """``exp(i * angle)`` of whole positions ``[T]``: complex128 ``[T, head_dim/2]``."""
    cos, sin = oracle.rope_tables(positions, head_dim, theta)
    half = head_dim // 2
    return torch.complex(cos[:, :half], sin[:, :half])


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn pairs of neighbours: ``[B, T, heads, head_dim]`` by complex ``[T, head_dim/2]``.

    Returns:
        float64, in the shape of ``x``.
    """
    points = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(points * table[:, None].to(torch.complex128)).flatten(-2)


def rows(weight: Tensor, head_dim: int) -> Tensor:
    """Carry ``[heads * head_dim, …]`` from halves (Hugging Face) to neighbours (Meta)."""
    return weight[_order(weight.shape[0], head_dim)]


def rows_back(weight: Tensor, head_dim: int) -> Tensor:
    """Undo :func:`rows`."""
    return weight[_order(weight.shape[0], head_dim).argsort()]


def _order(count: int, head_dim: int) -> Tensor:
    """Return which old row stands at each new place: ``0, d/2, 1, d/2 + 1, …`` within a head."""
    place = torch.arange(count)
    within = place % head_dim
    return place - within + within // 2 + within % 2 * (head_dim // 2)


def of_hugging_face(weights: Weights, head_dim: int) -> dict[str, Tensor]:
    """Weights of an attention or an MLP of Hugging Face under Meta's names and in its order."""
    return {
        f"{_NAMES[name]}.weight": rows(weight, head_dim) if name in _ROTATED else weight
        for name, weight in _bare(weights)
    }


def to_hugging_face(weights: Weights, head_dim: int) -> dict[str, Tensor]:
    """Undo :func:`of_hugging_face`."""
    names = {new: old for old, new in _NAMES.items()}
    return {
        f"{names[name]}.weight": rows_back(weight, head_dim) if names[name] in _ROTATED else weight
        for name, weight in _bare(weights)
    }


def attention(
    config: Qwen3Config,
    weights: Weights,
    x: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> Tensor:
    """All tokens at once, which is what any division into chunks has to give, too.

    Args:
        config: sizes and constants.
        weights: ``wq.weight`` to ``k_norm.weight``.
        x: ``[B, T, hidden]``.
        mask: see :func:`solutions.reference.oracle.attention`.
        positions: ``[T]`` or ``[B, T]``; None means ``0 … T-1``.

    Returns:
        float64 ``[B, T, hidden]``.
    """
    carried = to_hugging_face(weights, config.head_dim)
    return oracle.attention(config, carried, x, mask, positions)


def feed_forward(weights: Weights, x: Tensor) -> Tensor:
    """``w2(silu(w1(x)) * w3(x))``: ``[..., dim]`` to float64 ``[..., dim]``."""
    return oracle.mlp(to_hugging_face(weights, 1), x)


def feed_forward_size(dim: int, multiple_of: int, multiplier: float | None) -> int:
    """Width of Llama's MLP: 8/3 of ``dim``, times the multiplier, up to a multiple."""
    width = 8 * dim // 3
    width = width if multiplier is None else int(multiplier * width)
    return (width + multiple_of - 1) // multiple_of * multiple_of


def _bare(weights: Weights) -> list[tuple[str, Tensor]]:
    return [(name.removesuffix(".weight"), weight) for name, weight in weights.items()]

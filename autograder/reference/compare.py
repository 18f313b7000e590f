"""The metric: how far a tensor is from its float64 reference. Pure numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Limit:
    """Largest relative Frobenius error allowed, over the tensor and over its worst token."""

    tensor: float
    token: float


# fp32 decides the mathematics; the narrow types only crash, dtype and overflow.
LIMITS = {
    "float64": Limit(1e-5, 1e-4),
    "float32": Limit(1e-5, 1e-4),
    "float16": Limit(5e-3, 5e-2),
    "bfloat16": Limit(3e-2, 2e-1),
}


_FEW = 4  # numbers that may be anything by chance
_SURE = 1e-5


@dataclass(frozen=True)
class Difference:
    """Errors of a tensor against its reference, relative (no unit): whole, and worst token."""

    tensor: float
    token: float
    _gaps: Array = field(repr=False)
    _tokens: Array = field(repr=False)

    @property
    def place(self) -> tuple[int, ...]:
        """Index of the first deviation that is at least half as large as the largest."""
        return _index(self._gaps >= self._gaps.max(initial=0.0) / 2)

    @property
    def token_place(self) -> tuple[int, ...]:
        """Index of the worst token: all axes but the last."""
        return _index(self._tokens)


def difference(got: Array, want: Array, keep: NDArray[np.bool_] | None = None) -> Difference:
    """Compare tensors of one shape ``[..., features]``.

    Args:
        got: the values to judge.
        want: the reference.
        keep: ``[...]`` (without the last axis), False where a token is padding.

    Returns:
        ``||got - want|| / ||want||`` over everything kept and over the worst token. A token
        whose reference is (nearly) zero is measured against the mean norm of the tokens.
    """
    got, want = got.astype(np.float64, copy=False), want.astype(np.float64, copy=False)
    if want.ndim == 0:
        got, want = got[None], want[None]
    # Squares of huge numbers are infinite, and infinite by infinite is NaN, which is never too
    # far; those of tiny ones are zero. Against the largest of `want` neither happens.
    scale = float(np.abs(want).max(initial=0.0)) or 1.0
    with np.errstate(over="ignore"):
        return _difference(got / scale, want / scale, keep)


def relation(got: Array, want: Array) -> tuple[str, float]:
    """How wrong values of a shape relate to the reference, where one word says it.

    Returns:
        ``nothing``, ``sign``, ``scaled`` (with the factor) or ``order`` (the same numbers in other
        places); an empty word where none of these holds to a hundred-thousandth.
    """
    got, want = got.ravel(), want.ravel()
    if want.size < _FEW or not (want.any() and np.isfinite(got).all()):
        return "", 0.0
    if not got.any():
        return "nothing", 0.0
    unit = np.abs(want).max()
    factor = float(np.dot(got / unit, want / unit) / np.dot(want / unit, want / unit))
    if factor and difference(got / factor, want).tensor <= _SURE:
        return ("sign", -1.0) if abs(factor + 1) <= _SURE else ("scaled", factor)
    if difference(np.sort(got), np.sort(want)).tensor <= _SURE:
        return "order", 0.0
    return "", 0.0


def _difference(got: Array, want: Array, keep: NDArray[np.bool_] | None) -> Difference:
    if keep is not None:
        mask = np.broadcast_to(keep, want.shape[:-1])[..., None]
        got, want = np.where(mask, got, 0.0), np.where(mask, want, 0.0)
    gap = np.abs(got - want)
    wanted, gaps = (want * want).sum(-1), (gap * gap).sum(-1)  # squared norms of the tokens
    whole = math.sqrt(wanted.sum())
    floor = 1e-3 * whole / max(math.sqrt(wanted.size), 1.0) or 1e-30
    tokens = np.sqrt(gaps) / np.maximum(np.sqrt(wanted), floor)
    return Difference(
        tensor=math.sqrt(gaps.sum()) / (whole or 1e-30),
        token=float(tokens.max(initial=0.0)),
        _gaps=gap,
        _tokens=tokens,
    )


def _index(values: NDArray[Any]) -> tuple[int, ...]:
    if not values.size:
        return ()
    return tuple(int(i) for i in np.unravel_index(int(values.argmax()), values.shape))

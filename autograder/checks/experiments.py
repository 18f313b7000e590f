"""Questions that experiments of several labs ask alike; see :func:`expect.behaviour`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    Case,
    Result,
    Student,
    Tensor,
    expect_close,
    holds,
    works,
)
from autograder.sandbox.links import StudentError

Array = NDArray[np.float64]


def is_right(student: Student, case: Case, call: Callable[[], Result], name: str = "y") -> bool:
    """Whether a call gives the case's ``name``."""
    return works(student, lambda: expect_close(call(), case[name], case))


def is_beside(student: Student, case: Case, call: Callable[[], Result], name: str = "y") -> bool:
    """Whether a call gives several items, and the case's ``name`` is one of them."""
    return holds(student, call, lambda item: expect_close(item, case[name], case))


def refuses(student: Student, call: Callable[[], Result]) -> bool:
    """Whether a call raises as None does in a tensor's place, or on purpose.

    An index or shapes that do not fit are another mistake, wherever it stands.
    """
    try:
        _ = call().value
    except StudentError as error:
        return error.type not in ("IndexError", "RuntimeError")
    return False


def causal_mask(case: Case) -> Tensor:
    """An additive mask for the case's ``x [batch, seq, hidden]``: ``[1, 1, seq, seq]``."""
    tokens = case["x"].shape[1]
    least = np.finfo(np.float32).min
    return Tensor.of(np.triu(np.full((1, 1, tokens, tokens), least, np.float32), 1))


def near(got: NDArray[Any] | None, *wanted: Any) -> bool:
    """Whether it is one of these arrays, up to rounding."""
    return got is not None and any(
        np.shape(got) == np.shape(want) and np.allclose(got, want, rtol=1e-3, atol=1e-3)
        for want in wanted
    )


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """N(0, 1) of ``shape``."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softmax(scores: Any) -> Array:
    """Over the last axis, in float64."""
    shares = np.exp(np.asarray(scores, np.float64) - np.max(scores, -1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True))

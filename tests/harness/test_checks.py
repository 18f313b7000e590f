"""Comparisons of two values that student code gave: any shape, dtype and size may come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autograder.course.records import Text
from autograder.harness.checks import (
    Case,
    CheckFailed,
    expect_close,
    expect_same,
    expect_unlike,
)
from autograder.reference.compare import difference
from autograder.sandbox.wire import Tensor

CASE = Case("c", "c", False, Text("a case", "一个用例"), {})
WHY = Text("why", "为何")
NUMBERS = np.random.default_rng(4).standard_normal((3, 4))
OTHERS = np.random.default_rng(5).standard_normal((3, 4))
EARLY = (slice(None), slice(0, 1))


def failure(expect: Callable[..., None], got: Any, want: Any, **options: Any) -> str:
    with pytest.raises(CheckFailed) as failed:
        expect(Tensor.of(got), Tensor.of(want), CASE, WHY, **options)
    return failed.value.message.key


@pytest.mark.parametrize("size", [1.0, 1e100, 1e160, 1e300, 1e307])
def test_a_gap_is_relative_however_large_the_numbers(size: float) -> None:
    """Their squares overflow, and infinity by infinity is no error that exceeds a limit."""
    gap = difference(NUMBERS * size, OTHERS * size)
    whole = np.linalg.norm(NUMBERS - OTHERS) / np.linalg.norm(OTHERS)
    assert gap.tensor == pytest.approx(whole)
    assert gap.place == difference(NUMBERS, OTHERS).place
    assert difference(OTHERS * size, OTHERS * size).tensor == 0
    assert difference(NUMBERS * size, OTHERS).tensor >= min(size, 1.5) / 2


@pytest.mark.parametrize("size", [1.0, 1e200])
def test_numbers_that_differ_are_never_the_same(size: float) -> None:
    assert failure(expect_same, NUMBERS * size, OTHERS * size) == "check.moved"
    assert failure(expect_same, NUMBERS, OTHERS * size) == "check.moved"
    assert failure(expect_unlike, OTHERS * size, OTHERS * size) == "check.stuck"
    assert failure(expect_unlike, OTHERS * size * (1 + 1e-9), OTHERS * size) == "check.stuck"
    same = [Tensor.of(OTHERS * size)] * 2
    expect_same(*same, CASE, WHY)
    with pytest.raises(CheckFailed):
        expect_close(Tensor.of(NUMBERS * size), Tensor.of(OTHERS), CASE)


@pytest.mark.parametrize("array", [np.array(1.5), np.array([1.5, 2.0])], ids=["a scalar", "a row"])
@pytest.mark.parametrize("expect", [expect_same, expect_unlike])
def test_a_value_without_the_part_that_is_compared_has_the_wrong_shape(
    expect: Callable[..., None], array: Any
) -> None:
    assert failure(expect, array, array, part=EARLY) == "check.shape"

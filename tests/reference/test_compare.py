"""The metric where numbers leave what squares can hold: never NaN, which is never too far."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.reference.compare import difference

ONES = np.ones((3, 4))
DICE = np.random.default_rng(7)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1.0, 1e160, 1e300, 1.7e308])
def test_the_size_of_numbers_does_not_matter(scale: float) -> None:
    want = DICE.uniform(0.5, 1, (3, 4))
    same, other = (
        difference(want * scale, want * scale),
        difference(want[::-1] * scale, want * scale),
    )
    plain = difference(want[::-1], want)
    assert (same.tensor, same.token) == (0, 0)
    assert other.tensor == pytest.approx(plain.tensor, rel=1e-3)
    assert other.token == pytest.approx(plain.token, rel=1e-3)
    assert other.place == plain.place


@pytest.mark.parametrize("got", [1e160, 1e300, -1.7e308])
@pytest.mark.parametrize("want", [0.0, 1e-300, 1.0])
def test_huge_numbers_are_infinitely_far_from_ordinary_ones(got: float, want: float) -> None:
    gap = difference(ONES * got, ONES * want)
    assert gap.tensor > 1e100 and gap.token > 1e100


def test_padding_is_not_compared_however_large() -> None:
    want = ONES.copy()
    want[1] = 1e9
    keep = np.array([True, False, True])
    gap = difference(ONES * 1.001, want, keep)
    assert gap.tensor == pytest.approx(1e-3) and gap.token == pytest.approx(1e-3)

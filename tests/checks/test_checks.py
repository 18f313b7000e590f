"""Comparisons of two values that student code gave: any shape, dtype and size may come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from autograder.checks.expect import (
    CheckFailed,
    expect_close,
    expect_error,
    expect_items,
    expect_keys,
    expect_most,
    expect_number,
    expect_same,
    expect_unchanged,
    expect_unlike,
)
from autograder.course.messages import render
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS, Limit, difference
from autograder.sandbox.links import StudentError
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.student import Result, Student
from autograder.sandbox.transport import Sources
from autograder.wire.messages import Tensor

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


def test_of_a_single_number_no_place_is_told() -> None:
    assert failure(expect_close, np.array(1.5), np.array(2.5)) == "check.mismatch_number"
    assert failure(expect_close, NUMBERS, OTHERS) == "check.mismatch"


def test_of_zeros_no_relative_error_is_told() -> None:
    assert failure(expect_close, NUMBERS, np.zeros_like(NUMBERS)) == "check.mismatch_zeros"
    assert failure(expect_close, np.array(1.5), np.array(0.0)) == "check.mismatch_number"


def test_of_whole_numbers_it_is_counted_how_many_differ() -> None:
    assert failure(expect_close, np.arange(4), np.arange(1, 5)) == "check.mismatch_whole"


def test_how_wrong_numbers_relate_to_the_right_ones_is_told() -> None:
    want = np.arange(1.0, 13.0).reshape(3, 4) ** 1.5
    for got, key in (
        (-want, "mismatch_sign"), (8 * want, "mismatch_scaled"), (0 * want, "mismatch_nothing"),
        (want.T.reshape(3, 4), "mismatch_order"), (want[::-1], "mismatch_order"),
        (want + 1, "mismatch"), (want * (1 + 1e-3), "mismatch"), (np.sort(-want), "mismatch"),
    ):  # fmt: skip
        assert failure(expect_close, got, want) == f"check.{key}"
    # Of three numbers any may be some multiple of others by chance.
    assert failure(expect_close, 2 * want[0, :3], want[0, :3]) == "check.mismatch"


def test_the_first_place_that_is_well_off_is_told() -> None:
    want = np.zeros((2, 4)) + 1
    got = want + np.array([[0, 0.01, 0.6, 0], [0, 0, 1, 0]])
    assert difference(got, want).place == (0, 2)
    assert difference(want, want).place == (0, 0)


def test_a_narrow_dtype_that_was_asked_for_is_not_what_is_wrong() -> None:
    """Whoever compares by the limits of a dtype has asked for it."""
    got = Tensor("bfloat16", (2,), bytes((0, 64, 0, 64)))
    for limit, key in ((None, "check.dtype"), (LIMITS["bfloat16"], "check.mismatch")):
        with pytest.raises(CheckFailed) as found:
            expect_close(got, Tensor.of(np.ones(2)), CASE, limit=limit)
        assert found.value.message.key == key


def test_where_minus_infinity_is_right_nothing_else_is() -> None:
    want = np.where(NUMBERS < 0, -np.inf, NUMBERS)
    expect_close(Tensor.of(want * (1 + 1e-9)), Tensor.of(want), CASE)
    for other in (np.inf, np.nan, -1e9, 0.0):
        wrong = np.where(NUMBERS < 0, other, NUMBERS)
        assert failure(expect_close, wrong, want) == "check.endless"
    dropped = np.full_like(want, -np.inf)
    assert failure(expect_close, dropped, want) == "check.endless"  # and not that it is odd
    assert failure(expect_close, np.where(np.isinf(want), want, 1 + want), want) == "check.mismatch"
    expect_close(Tensor.of(dropped), Tensor.of(dropped), CASE)


@pytest.mark.parametrize("size", [1.0, 1e200])
def test_numbers_that_differ_are_never_the_same(size: float) -> None:
    assert failure(expect_same, NUMBERS * size, OTHERS * size) == "check.moved"
    assert failure(expect_same, NUMBERS, OTHERS * size) == "check.moved"
    assert failure(expect_unlike, OTHERS * size, OTHERS * size) == "check.stuck"
    assert failure(expect_unlike, OTHERS * size * (1 + 1e-9), OTHERS * size) == "check.stuck"
    same = [Tensor.of(OTHERS * size)] * 2
    expect_same(*same, CASE, WHY)  # type: ignore[call-arg]
    with pytest.raises(CheckFailed):
        expect_close(Tensor.of(NUMBERS * size), Tensor.of(OTHERS), CASE)


def _came(op: str, value: Any) -> Result:
    came = Result(Student(LocalTransport(Sources({}))), {"op": op}, ())
    came.set(value)
    return came


@pytest.mark.parametrize(
    ("op", "value", "key"),
    [
        ("call", None, "nothing"),
        ("get", None, "type"),  # nobody returns an attribute
        ("call", (Tensor.of(NUMBERS),), "inside"),
        ("call", {"y": Tensor.of(NUMBERS), "n": 3}, "inside"),
        ("call", [1.0, 2.0], "type"),
        ("call", 3, "type"),
    ],
)
def test_what_came_in_place_of_a_tensor_is_told_apart(op: str, value: Any, key: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        expect_close(_came(op, value), Tensor.of(NUMBERS), CASE)
    assert failed.value.message.key == f"check.{key}"
    if key == "nothing":
        for expect in (
            partial(expect_items, count=2),
            partial(expect_keys, keys=["a"]),
            expect_number,
        ):
            with pytest.raises(CheckFailed) as failed:
                expect(_came(op, value), case=CASE)
            assert failed.value.message.key == "check.nothing"


def test_what_a_dict_has_in_place_of_its_keys_is_told() -> None:
    for value, others in (
        ({}, None),
        ({"b": 1}, None),
        ({"b": 1, "A": 2, 3: 4}, "A, 3"),
        (dict.fromkeys("cdefgh" * 99), "c, d, e, f, …"),
        ({"x" * 999: 1}, "x" * 60),
    ):
        with pytest.raises(CheckFailed) as failed:
            expect_keys(_came("call", value), ["a", "b"], CASE)
        assert failed.value.message.values["missing"] == ("a" if "b" in value else "a, b")
        assert failed.value.message.values.get("others") == others
        assert render(failed.value.message, "zh")


@pytest.mark.parametrize("number", [0.0, 1.0, -2.5])
def test_one_number_everywhere_is_no_answer(number: float) -> None:
    """It agrees with itself whatever was changed."""
    constant = np.full_like(OTHERS, number)
    assert failure(expect_same, constant, constant) == "check.constant"
    expect_same(Tensor.of(np.array(2.0)), Tensor.of(np.array(2.0)), CASE, WHY)  # a scalar is one


@pytest.mark.parametrize("array", [np.array(1.5), np.array([1.5, 2.0])], ids=["a scalar", "a row"])
@pytest.mark.parametrize("expect", [expect_same, expect_unlike])
def test_a_value_without_the_part_that_is_compared_has_the_wrong_shape(
    expect: Callable[..., None], array: Any
) -> None:
    assert failure(expect, array, array, part=EARLY) == "check.shape"


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ((slice(None), -1), [1, 2, 3]),
        ((slice(None), slice(1, None), slice(2, None)), [1, 2, 3]),
        ((np.array([1]),), [1, 2, 3]),
        ((1, 2), [1, 2, 3]),
    ],
    ids=["the last", "slices", "some rows", "one row"],
)
def test_a_place_is_that_of_the_whole_value(part: Any, place: list[int]) -> None:
    """A student looks for it in what the code returns, not in the part that is compared."""
    wrong = np.random.default_rng(6).standard_normal((2, 3, 4))
    right = wrong.copy()
    wrong[tuple(place)] += 9
    with pytest.raises(CheckFailed) as failed:
        expect_close(Tensor.of(wrong), Tensor.of(right), CASE, part=part)
    assert failed.value.message.values["place"] == str(place)
    wide = Limit(1e9, 1e-3)
    with pytest.raises(CheckFailed) as failed:
        expect_close(Tensor.of(wrong), Tensor.of(right), CASE, part=part, limit=wide)
    assert failed.value.message.values["place"] == str(place[:-1])


class Raising(Result):
    """A call that raised, or gave ``given``."""

    def __init__(self, given: Any = None, **error: Any) -> None:
        self._given, self._error = given, error

    @property
    def value(self) -> Any:
        if self._error:
            raise StudentError(self._error)
        return self._given


def test_an_error_that_is_asked_for_has_to_come_in_the_right_words() -> None:
    full = {"type": "ValueError", "text": "max_len is 14"}
    expect_error(Raising(**full), "ValueError", "14", CASE, WHY)
    expect_error(Raising(type="KeyError", text="x"), "Exception", "", CASE, WHY)
    own = {"type": "NoRoom", "kinds": ["ValueError", "Exception"], "text": "max_len is 14"}
    expect_error(Raising(**own), "ValueError", "14", CASE, WHY)
    for result, key in (
        (Raising(3), "check.no_error"),
        (Raising(type="RuntimeError", text="14"), "check.other_error"),
        (Raising(type="ValueError", text="full"), "check.other_error"),
    ):
        with pytest.raises(CheckFailed) as failed:
            expect_error(result, "ValueError", "14", CASE, WHY)
        assert failed.value.message.key == key


def test_a_todo_is_no_error_that_was_asked_for() -> None:
    todo = Raising(type="NotImplementedError", text="TODO lab3.x: to do", todo="lab3.x")
    with pytest.raises(StudentError):
        expect_error(todo, "Exception", "", CASE, WHY)


@pytest.mark.parametrize(("dtype", "told"), [("float32", True), ("bfloat16", False)])
def test_of_several_dtypes_it_is_told_which_input_changed(dtype: str, told: bool) -> None:
    case = replace(CASE, about=Text("bfloat16: x [2]", "bfloat16：x [2]"))
    given = Tensor(dtype, (2,), bytes(4 if dtype == "bfloat16" else 8))
    after = replace(given, data=b"\1" + given.data[1:])
    with pytest.raises(CheckFailed) as failed:
        expect_unchanged(after, given, case, Text("x", "x"))
    assert ("here in float32" in str(failed.value.message.values["what"])) == told


def test_a_count_may_reach_its_limit() -> None:
    expect_most(3, 3, CASE, WHY, WHY)
    with pytest.raises(CheckFailed) as failed:
        expect_most(4, 3, CASE, WHY, WHY)
    assert failed.value.message.values["got"] == 4

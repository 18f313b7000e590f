"""Replies that fuzzing found, each by itself: the checks take them for what they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from autograder.course.records import CheckResult, Outcome
from autograder.wire.messages import Tensor, pack, unpack
from tests.fuzz.earned import drawn, graded, leaves, tensor, unearned
from tests.fuzz.right_replies import LAB, SingleCheck, single_checks, single_checks_of


@cache
def right(name: str) -> SingleCheck:
    """A check with the replies that pass it; of lab 2, where several labs have it."""
    found = (*single_checks_of(LAB), *single_checks())
    return next(single for single in found if single.check.name == name)


def replied(name: str, **tensors: Tensor) -> CheckResult:
    """The result of a check whose right reply has these tensors in it instead."""
    tree, arrays = unpack(right(name).replies[-1])
    assert tensors.keys() <= arrays.keys()
    return graded(right(name), pack(tree, {**arrays, **tensors}))


def test_numbers_without_a_sign_are_wrong_and_no_fault_of_ours() -> None:
    _, arrays = unpack(right("test_mlp_up_is_linear").replies[-1])
    unsigned = {
        name: tensor(np.arange(t.array.size).reshape(t.shape) % 7, "uint8")
        for name, t in arrays.items()
    }
    result = replied("test_mlp_up_is_linear", **unsigned)
    assert result.outcome is Outcome.FAILED
    assert result.message is not None and result.message.key == "check.moved"


def test_too_few_sides_are_wrong_and_no_fault_of_ours() -> None:
    flat = {f"r{number}": tensor(np.ones(5), "float32") for number in range(3)}
    result = replied("test_attention_future", **flat)
    assert result.outcome is Outcome.FAILED
    assert result.message is not None and result.message.key == "check.shape"


def test_pieces_with_a_line_break_are_wrong_and_no_fault_of_ours() -> None:
    tree, arrays = unpack(right("test_engine_streams").replies[-1])
    (_, pieces), _ = tree["values"][-1]["$dict"]
    pieces["$dict"][0][1] += "\n"
    result = graded(right("test_engine_streams"), pack(tree, arrays))
    assert result.outcome is Outcome.FAILED
    assert "line break" in str(result.message)


def test_tokens_beyond_every_vocabulary_are_wrong_and_no_fault_of_ours() -> None:
    drawn_ids = tensor(np.full(8000, 1 << 60), "int64")
    assert replied("test_sample_temperature", r0=drawn_ids).outcome is Outcome.FAILED
    assert replied("test_accept_shares", r0=tensor(np.zeros((128, 3)), "float32")).outcome is (
        Outcome.FAILED
    )


@pytest.mark.parametrize("value", [7, {"$list": []}, {"$t": "r0"}, {"$other": "a thing"}])
def test_one_number_for_a_list_of_tokens_is_wrong(value: Any) -> None:
    tree, _ = unpack(right("test_speculate_runs").replies[-1])
    tree["values"][2] = value
    one = {"r0": tensor(np.int64(3), "int64")} if value == {"$t": "r0"} else {}
    outcome = graded(right("test_speculate_runs"), pack(tree, one)).outcome
    assert outcome is (Outcome.PASSED if one else Outcome.FAILED)  # a tensor of one token will do


def test_an_empty_tensor_of_huge_sides_ends_the_worker() -> None:
    shape = (0, *[(1 << 31) - 1] * 3)
    for name in ("test_mlp_pure", "test_attention_shift", "test_count_runs"):
        tree, arrays = unpack(right(name).replies[-1])
        huge = {n: Tensor("float32", shape, b"") for n in arrays} | {
            "x": Tensor("float32", shape, b"")
        }
        assert graded(right(name), pack(tree, huge)).outcome is Outcome.CRASHED


def test_a_tensor_that_stands_nowhere_ends_the_worker() -> None:
    """Nobody would look at it, and it would be kept with the others."""
    name = "test_attention_parity"
    tree, arrays = unpack(right(name).replies[-1])
    spare = {"spare": tensor(np.zeros(3), "float32")}
    for other in (arrays | spare, {**spare, **arrays}):
        assert graded(right(name), pack(tree, other)).outcome is Outcome.CRASHED
    assert graded(right(name), pack(tree, arrays)).outcome is Outcome.PASSED


def test_numbers_whose_squares_overflow_pass_for_none() -> None:
    for single in single_checks_of(LAB):
        expect_huge_numbers_to_fail(single)


def expect_huge_numbers_to_fail(single: SingleCheck) -> None:
    """Where another number anywhere costs the pass, huge ones everywhere do, too."""
    tree, arrays = unpack(single.replies[-1])
    for place, name in enumerate(sorted(arrays)):
        with np.errstate(all="ignore"):
            huge = {name: drawn(arrays[name], 1e200 * (1 + place), "float64")}
            reply = pack(tree, {**arrays, **huge})
            result = graded(single, reply)
            if result.outcome is Outcome.PASSED:
                assert not unearned(single, reply)


def test_the_judge_of_passes_sees_what_is_not_earned() -> None:
    """Without this, "never a pass that it did not earn" could not fail."""
    single = right("test_attention_parity")
    tree, arrays = unpack(single.replies[-1])
    old = arrays["r0"]
    assert unearned(single, single.replies[-1]) == ""
    for spoilt in (
        drawn(old), tensor(np.full(old.shape, np.nan), "float32"), tensor(old.array[0], "float32")
    ):  # fmt: skip
        assert unearned(single, pack(tree, {"r0": spoilt}))
    assert unearned(single, pack({"values": [None, {"$other": "x"}]}, {}))
    assert unearned(single, pack(tree | {"error": {}}, arrays))
    kinds = {kind for one in single_checks_of(LAB) for leaf in leaves(one) for kind in leaf.fatal}
    assert kinds == {"kind", "shape", "dtype", "finite", "values"}

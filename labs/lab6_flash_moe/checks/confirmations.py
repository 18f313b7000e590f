"""Confirms from outside what the checks of lab 6 count, with inputs larger than theirs."""

from __future__ import annotations

import numpy as np

from autograder.checks.costs import measured
from autograder.checks.expect import cases
from autograder.judge.hand_in import (
    WatchedHandIn,
    confirms,
    expect_bytes_as_said,
    expect_equal_work,
)
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Result
from autograder.wire.messages import Tensor

HIDDEN = INNER = 96
TOKENS = 2048
EXPERTS = (2, 64)
BLOCKS = (256, 2048)


def _flash(student: WatchedHandIn, case: Case, q_times: int, kv_times: int) -> Result:
    times = {"q": q_times, "k": kv_times, "v": kv_times}
    qkv = [Tensor.of(np.tile(case[name].array, (1, 1, n, 1))) for name, n in times.items()]
    return student.call("attention.flash_attention", *qkv, False, *BLOCKS, measure=0)


@confirms("test_flash_growth", "test_flash_cap")
@cases("flash_cap")
def confirm_flash_bytes(student: WatchedHandIn, case: Case) -> None:
    """768 queries and 16384 keys: their table has 48 MiB, and a softmax the same again."""
    _flash(student, case, 1, 1)
    before = student.usage()
    said = measured(_flash(student, case, 6, 32), case)[1].peak
    expect_bytes_as_said(said, before, student.usage())


@confirms("test_experts_flops", "test_experts_bytes")
@cases("experts_cost")
def confirm_experts(student: WatchedHandIn, case: Case) -> None:
    """Each token has one expert of 2, then one of 64: the same work, unless all are computed.

    A copy of its expert for each of the 2048 tokens has 216 MiB.
    """
    x = np.resize(case["x"].array, (TOKENS, HIDDEN))
    shares = np.ones((TOKENS, 1), dtype=np.float32)

    def made(count: int) -> Handle:
        shapes = {"gate_up_proj": (2 * INNER, HIDDEN), "down_proj": (HIDDEN, INNER)}
        weights = {
            name: Tensor.of(np.resize(case.weights[name].array, (count, *shape)))
            for name, shape in shapes.items()
        }
        return student.new("mlp.Experts", HIDDEN, INNER, count, weights=weights)

    def seconds(experts: Handle, chosen: np.ndarray) -> float:
        return student.seconds(lambda: student.call(experts, x, chosen, shares))

    few, many = (np.arange(TOKENS).reshape(-1, 1) % count for count in EXPERTS)
    first = seconds(made(EXPERTS[0]), few)
    experts = made(EXPERTS[1])
    before = student.usage()
    result = student.call(experts, x, many, shares, measure=0)
    expect_bytes_as_said(measured(result, case)[1].peak, before, student.usage())
    expect_equal_work(first, seconds(experts, many))

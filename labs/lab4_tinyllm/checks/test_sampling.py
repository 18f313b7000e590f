"""Checks of ``sample``: by shares where chance decides, so that any use of it is as good."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_unlike,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import LOGITS, expect_shares, like

CHOSEN = Text("the chosen tokens", "选出的 token")
FEW = 400  # draws that are the same, or not: far too many to be equal by chance


def _many(case: Case, rows: int = FEW) -> Tensor:
    """The row of the case, many times over."""
    row = case["logits"]
    return like(row, np.broadcast_to(row.array, (rows, row.shape[0])))


def _seeded(student: Student, seed: int) -> Handle:
    return student.new("labs.given.standin.seeded", seed)


def _drawn(student: Student, case: Case, **given: Any) -> Result:
    return student.call("model.sample", _many(case), **case["options"], **given)


@checks("""
    test_sample_temperature: sample_plain sample_temperature sample_cold
        Tokens come out as often as softmax(logits / temperature) says.
        各 token 出现的比例符合 softmax(logits / temperature)。

    test_sample_top_k: sample_top_k sample_top_k_all sample_warm_top_k
        Only the k most likely tokens come out, by their own ids; if k exceeds the vocabulary, all.
        只出现最可能的 k 个，用它们自己的编号；k 大于词表时全部保留。

    test_sample_top_p: sample_top_p sample_top_p_reached
        Only the most likely tokens come out, by their own ids: as few as reach top_p together.
        只出现最可能的几个，用它们自己的编号：合计达到 top_p 的最少个数。

    test_sample_top_p_small: sample_top_p_small
        However small top_p is, the most likely token stays.
        无论 top_p 多小，最可能的 token 都会保留。

    test_sample_order: sample_warm_top_p sample_top_k_top_p sample_top_k_all_of_top_p
        Temperature first, then top_k, then top_p of what is left.
        先温度，再 top_k，最后对剩下的用 top_p。
    """)
def _expect_shares(student: Student, case: Case) -> None:
    expect_shares(student, "model.sample", [_many(case, case["rows"])], case)


@cases("sample_greedy")
def test_sample_runs(student: Student, case: Case) -> None:
    """It runs and gives one token id per row, int64, with chance and without.

    能运行，每行给出一个 int64 的 token 编号，随机与否都一样。
    """
    for temperature in (0.0, 1.0):
        result = student.call("model.sample", case["logits"], temperature=temperature)
        expect_shape(result, case["y"].shape, case, CHOSEN)
        expect_dtype(result, "int64", case, CHOSEN)


@cases("sample_greedy")
def test_sample_greedy(student: Student, case: Case) -> None:
    """Temperature 0 takes the most likely token.

    温度为 0 时取最可能的 token。
    """
    expect_close(student.call("model.sample", case["logits"]), case["y"], case, CHOSEN)


@cases("sample_rows", "sample_rows_top_k", "sample_rows_top_p")
def test_sample_rows(student: Student, case: Case) -> None:
    """Every row is sampled from its own logits, within its own top_k and top_p.

    每行按自己的 logits 采样，top_k 与 top_p 也各自计算。
    """
    made = student.new("model.sample", case["logits"], **case["options"])
    result = student.call("copy.copy", made)
    # In steps so coarse that chance has no say: what mistakes are recognised by.
    student.call("labs.given.standin.agreeing", made, case["y"])
    chosen, wanted = expect_shape(result, case["y"].shape, case, CHOSEN).array, case["y"].array
    decided = np.where(wanted < 0, wanted, chosen)  # -1: chance decides there
    expect_close(Tensor.of(decided), case["y"], case, CHOSEN)


@cases("sample_plain")
def test_sample_generator(student: Student, case: Case) -> None:
    """Randomness comes from the given generator, which goes on: same seed, same tokens, once.

    随机性来自传入的 generator：种子相同，结果相同；每抽取一次，它的状态就会改变。
    """
    first, second, other = (
        _drawn(student, case, generator=_seeded(student, seed)) for seed in (5, 5, 6)
    )
    own, later = _drawn(student, case), _drawn(student, case)
    held = _seeded(student, 7)
    begun, on = (_drawn(student, case, generator=held) for _ in range(2))
    # As words that chance cannot change: what mistakes are recognised by. So many, since rows that
    # all get the same token by chance may get it twice.
    with_it: dict[str, Any] = {"generator": held}
    for given in ({}, with_it):
        options = case["options"] | given
        once, *again = (student.new("model.sample", _many(case), **options) for _ in range(7))
        for drawn in again:
            student.call("torch.equal", once, drawn)
    why = Text("both generators were seeded alike.", "两个 generator 的种子相同。")
    expect_same(second, first, case, why, CHOSEN)
    why = Text("the seeds differ.", "种子不同。")
    expect_unlike(other, first, case, why, CHOSEN)
    why = Text(
        "the same generator goes on; nothing may seed it again.",
        "同一个 generator 每抽取一次，状态就会改变；不要重新设定种子。",
    )
    expect_unlike(on, begun, case, why, CHOSEN)
    why = Text(
        "without a generator torch's own goes on; nothing may set it back.",
        "没有给定 generator 时使用 torch 自己的：每抽取一次，它的状态就会改变，不要重新设定种子。",
    )
    expect_unlike(later, own, case, why, CHOSEN)


@cases("sample_warm_top_p", "sample_top_k")
def test_sample_pure(student: Student, case: Case) -> None:
    """It leaves the logits alone.

    不修改 logits。
    """
    given = _many(case)
    result = student.call("model.sample", given, **case["options"], echo=True)
    _, args, _ = expect_items(result, 3, case)
    expect_unchanged(args[0], given, case, LOGITS)

"""Checks of ``online_softmax``: one look at every block."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.costs import expect_growth
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Named, Result, Student
from autograder.wire.messages import Tensor
from labs.lab6_flash_moe.checks.calls import blocks_of, one_after_the_other

MAXIMUM, TOTAL = Text("the maximum", "最大值"), Text("the total", "总和")
LOG = Text("maximum + log(total), the log-sum-exp", "maximum + log(total)，即 log-sum-exp")
# Growth from 8 blocks to 32: right styles have 1.00, and 1.18 where two numbers of every block
# are kept; with all blocks side by side it is 4.
MOST_GROWTH = 2.0


def _online(student: Student, case: Case) -> Result:
    return student.call("attention.online_softmax", blocks_of(case))


def _parts(value: Any, case: Case) -> tuple[Tensor, Tensor]:
    value = value.value if isinstance(value, Result) else value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise reject(value, Text("a tuple of 2", "含 2 项的 tuple"), case)
    maximum, total = value
    shape = case["maximum"].shape
    return expect_shape(maximum, shape, case, MAXIMUM), expect_shape(total, shape, case, TOTAL)


@checks("""
    test_online_rising: scores_rising
        A new maximum makes the sum so far smaller.
        出现新的最大值时，之前累加的和随之缩小。

    test_online_falling: scores_falling
        A block below the maximum is measured from the maximum so far.
        低于最大值的块以目前的最大值为基准。

    test_online_large: scores_large scores_low
        Scores in the hundreds, positive or negative, do no harm.
        绝对值达数百的分数，无论正负，都不会出错。
    """)
def _expect_log(student: Student, case: Case) -> None:
    """Maximum and total together: what they stand for, whatever the maximum is."""
    maximum, total = _parts(_online(student, case), case)
    with np.errstate(all="ignore"):
        got, want = (
            m.array.astype(np.float64) + np.log(t.array.astype(np.float64))
            for m, t in ((maximum, total), (case["maximum"], case["total"]))
        )
    expect_close(Tensor.of(got), Tensor.of(want), case, LOG)


@cases("scores_blocks")
def test_online_runs(student: Student, case: Case) -> None:
    """It runs and gives two tensors of one number per row.

    能运行，返回两个张量，每行一个数。
    """
    _parts(_online(student, case), case)


@cases("scores_blocks", "scores_rising", "scores_falling")
def test_online_maximum(student: Student, case: Case) -> None:
    """The maximum is the largest score of all blocks.

    最大值是所有块中最大的分数。
    """
    maximum, _ = _parts(_online(student, case), case)
    expect_close(maximum, case["maximum"], case, MAXIMUM)


@checks("""
    test_online_sum: scores_level
        With the same maximum in every block, their sums add up, each of them once.
        各块最大值相同时，各块的和累加起来，每块只算一次。

    test_online_total: scores_blocks
        The total is the sum of exp(score - maximum) over all blocks.
        总和是所有块的 exp(score - maximum) 之和。
    """)
def _expect_total(student: Student, case: Case) -> None:
    _, total = _parts(_online(student, case), case)
    expect_close(total, case["total"], case, TOTAL)


@cases("scores_hidden")
def test_online_hidden(student: Student, case: Case) -> None:
    """Scores of -inf count as nothing, even where a block, or a row, has no others.

    值为 -inf 的分数不计入，即使一块或一行中全是 -inf。
    """
    maximum, total = _parts(_online(student, case), case)
    expect_close(total, case["total"], case, TOTAL)
    seen = np.isfinite(case["maximum"].array)
    low = maximum.array[~seen].astype(np.float64)
    if not np.isneginf(low).all():
        what = Text("the maximum of a row of -inf alone", "全是 -inf 的一行的最大值")
        raise reject(float(low[~np.isneginf(low)][0]), Text("-inf", "-inf"), case, what)
    got, want = (np.where(seen, m.array, 0.0) for m in (maximum, case["maximum"]))
    expect_close(Tensor.of(got), Tensor.of(want), case, MAXIMUM)


@cases("scores_bfloat16")
def test_online_bfloat16(student: Student, case: Case) -> None:
    """Blocks in bfloat16 are summed in float32; float64 blocks give float32 results, too.

    bfloat16 的块用 float32 累加；float64 的块也返回 float32。
    """
    wide = [Tensor.of(block.array.astype(np.float64)) for block in blocks_of(case)]
    for result in (_online(student, case), student.call("attention.online_softmax", wide)):
        for part, what in zip(_parts(result, case), (MAXIMUM, TOTAL), strict=True):
            expect_dtype(part, "float32", case, what)
    _expect_log(student, case)


@cases("scores_blocks", "scores_hidden")
def test_online_pure(student: Student, case: Case) -> None:
    """It changes neither blocks (contiguous or not) nor earlier results; equal calls agree.

    不修改传入的块（不必是连续存储的）与之前的结果，相同的调用得到相同的结果。
    """
    blocks = blocks_of(case)
    first = student.call("attention.online_softmax", blocks, echo=True)
    turned = [np.ascontiguousarray(block.array.swapaxes(0, 1)) for block in blocks]
    again = [student.new("torch.transpose", block, 0, 1) for block in turned]
    later = [1 - block.array for block in blocks]
    function = Named("attention.online_softmax")
    second, _ = one_after_the_other(student, case, function, [again], [later])
    value, (after,), _ = expect_items(first, 3, case)
    if not isinstance(after, (list, tuple)) or len(after) != len(blocks):
        whole = Text(f"the {len(blocks)} blocks that it was", f"原来的 {len(blocks)} 块")
        raise reject(after, whole, case, Text("the list, after the call", "调用之后的列表"))
    for number, (now, block) in enumerate(zip(after, blocks, strict=True)):
        expect_unchanged(now, block, case, Text(f"block {number}", f"块 {number}"))
    if not np.isfinite(case["maximum"].array).all():
        return  # nothing is left to compare by distance
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    for got, want in zip(_parts(second, case), _parts(value, case), strict=True):
        expect_same(got, want, case, why)


@cases("scores_blocks")
def test_online_once(student: Student, case: Case) -> None:
    """Blocks may come from an iterator, which gives each of them once.

    块可以来自迭代器，每块只给出一次。
    """
    coming = student.new("builtins.iter", blocks_of(case))
    result = student.call("attention.online_softmax", coming)
    maximum, total = _parts(result, case)
    about = Text("of blocks that come from an iterator", "块来自迭代器时的")
    for got, name, what in ((maximum, "maximum", MAXIMUM), (total, "total", TOTAL)):
        words = Text(f"{what.en} {about.en}", f"{about.zh}{what.zh}")
        expect_close(got, case[name], case, words)


@cases("scores_many")
def test_online_memory(student: Student, case: Case) -> None:
    """Four times as many blocks take no more memory: none is kept.

    块数变为四倍，内存不增加：不保留任何一块。
    """
    # In a list, which whoever takes it apart (first, *rest = blocks) may keep: copies count.
    blocks = blocks_of(case)
    short = student.call("attention.online_softmax", blocks, measure=0)
    long = student.call("attention.online_softmax", blocks * 4, measure=0)
    what = Text("the list of blocks", "块的列表")
    square = 4 * sum(block.array.size for block in blocks)
    why = Text(
        "Of a block that was looked at, two numbers per row are enough.",
        "看过的块，每行保留两个数就够了。",
    )
    expect_growth(
        short, long, case, what, times=4, most=MOST_GROWTH, least=0, square=square, why=why
    )

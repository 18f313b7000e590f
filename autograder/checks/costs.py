"""Helpers for checks of costs: ``expect_…`` for calls that were made with ``measure``.

Costs are counted in the student's process (see :mod:`autograder.worker.costs`). Where less work
was seen than any right answer takes, nothing is known: that is for a human, and no zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autograder.checks.expect import OUTPUT, CheckFailed, NotCounted, expect_items
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Result
from autograder.wire.messages import Tensor

# Of the FLOPs that no right answer can do without. Not all: where a single row is multiplied
# without a product of matrices, half of its work looks like mere scaling.
_SEEN = 0.45
_WHOLE = 5e-3  # a ratio nearer to a whole number than this is one
_LARGE = 4  # times the bytes allowed: a single tensor that no other mistake makes
MIB = 1 << 20


@dataclass(frozen=True)
class Costs:
    """The costs of one call: bytes, FLOPs, and the largest tensor that it made.

    ``alive`` tensors had ``peak`` bytes when they had most. ``over``: the call was ended since it
    wanted more than its cap; ``fenced``: the system kept the cap, too. The largest tensor has
    ``shape`` (empty where there was no memory for it) and dtype ``kind``; ``operator`` made it
    where ``file`` and ``line`` say (empty and 0: in none of the student's files), or used it there
    where it was ``kept`` from before the call.
    """

    peak: int
    alive: int
    flops: int
    over: bool
    fenced: bool
    largest: int
    operator: str
    kind: str
    file: str
    line: int
    shape: Sequence[int]
    kept: bool

    def largest_words(self) -> dict[str, str]:
        """The largest tensor, what made it, and where, as a value of a message."""
        en, zh = ("", "") if not self.line else (f" ({self.file}, line {self.line})",
                                                 f"（{self.file} 第 {self.line} 行）")  # fmt: skip
        if not self.operator:
            return _words("the operator is not visible", "看不到是哪个算子")
        if not self.shape:
            return _words(
                f"it was asked for by {self.operator}{en}", f"由 {self.operator} 请求{zh}"
            )
        tensor = f"{list(self.shape)} {self.kind}"
        if self.kept:
            return _words(
                f"the largest tensor, {tensor}, was kept ready and is used by {self.operator}{en}",
                f"最大的张量 {tensor} 是事先准备好的，由 {self.operator} 使用{zh}",
            )
        return _words(
            f"the largest tensor, {tensor}, was made by {self.operator}{en}",
            f"最大的张量 {tensor} 由 {self.operator} 产生{zh}",
        )


def _words(en: str, zh: str) -> dict[str, str]:
    return {"en": en, "zh": zh}


def measured(result: Result, case: Case) -> tuple[Any, Costs]:
    """Return what a measured call returned (None where it went over its cap), and its costs."""
    value, table = expect_items(result, 2, case)
    for part in value if isinstance(value, (tuple, list)) else (value,):
        if (
            isinstance(part, Tensor)
            and part.array.size
            and (part.array == part.array.flat[0]).all()
        ):
            number = float(part.array.flat[0])  # nothing costs less than no answer
            what = _words(OUTPUT.en, OUTPUT.zh)
            raise CheckFailed("check.constant", case=case.words, what=what, value=number)
    return value, Costs(**table)


def _expect_seen(costs: Costs, least: float, case: Case) -> None:
    """Enough of the work has to be visible."""
    if costs.flops < _SEEN * least:
        raise NotCounted(
            Text(
                f"{costs.flops:,} FLOPs of matrix products were seen, a right answer takes at "
                f"least {math.floor(least):,}",
                f"只观察到 {costs.flops:,} 次矩阵乘法浮点运算，正确的答案至少需要 "
                f"{math.floor(least):,} 次",
            )
        )


def expect_growth(
    short: Result,
    long: Result,
    case: Case,
    what: Text,
    *,
    times: float,
    most: float,
    least: float,
    square: int,
    why: Text,
) -> None:
    """Peak live bytes of two calls, of which the second has ``times`` as much to do.

    Args:
        short: the first call.
        long: the second one.
        case: for the sentence.
        what: what is longer, for the sentence.
        times: how much longer.
        most: how many times as many bytes the second call may have alive.
        least: FLOPs that a right answer to the second call cannot do without.
        square: numbers in a tensor that holds everything at once; for the verdict.
        why: what to aim at, for the sentence.
    """
    before, after = measured(short, case)[1], measured(long, case)[1]
    _expect_seen(after, least, case)
    if not before.peak:
        raise NotCounted(Text("no tensor was seen to be made", "没有观察到产生任何张量"))
    growth = after.peak / max(before.peak, 1)
    if growth > most:
        whole = math.prod(after.shape) >= square
        long.verdict = f"grows, one {after.kind}" if whole else "grows, many"
        raise CheckFailed(
            "check.grows", case=case.words, what=_words(what.en, what.zh), growth=growth,
            times=times, most=most, alive=after.alive, largest=after.largest_words(),
            why=_words(why.en, why.zh),
        )  # fmt: skip


def expect_flops(
    result: Result, case: Case, *, needed: float, most: float, least: float, why: Text
) -> None:
    """FLOPs of a call's matrix products: at most ``most`` times what is ``needed``.

    Args:
        result: the call.
        case: for the sentence.
        needed: what the ratio is taken of.
        most: the largest ratio.
        least: FLOPs that no right answer can do without.
        why: what to do without, for the sentence.
    """
    costs = measured(result, case)[1]
    _expect_seen(costs, least, case)
    if costs.flops > most * needed:
        # A known mistake is recognised by this word: only where the work is a whole multiple, as
        # when nothing is left out. Whoever computes something twice has made another one.
        ratio = costs.flops / needed
        whole = abs(ratio - round(ratio)) < _WHOLE
        result.verdict = "works too much" if whole else f"works {ratio:.2f} times"
        raise CheckFailed(
            "check.flops", case=case.words, got=costs.flops, ratio=costs.flops / needed,
            needed=round(needed), most=most, why=_words(why.en, why.zh),
        )  # fmt: skip


def expect_bytes(result: Result, case: Case, *, most: int, least: float, why: Text) -> None:
    """Peak live bytes of a call: at most ``most``."""
    costs = measured(result, case)[1]
    _expect_seen(costs, least, case)
    if costs.peak > most:
        large = costs.largest >= _LARGE * most
        result.verdict = "holds too much" if large else "holds a little too much"
        raise CheckFailed(
            "check.bytes", case=case.words, got=costs.peak, most=most, why=_words(why.en, why.zh),
            largest=costs.largest_words(),
        )  # fmt: skip


def expect_within_cap(result: Result, case: Case, *, cap: int, least: float) -> Any:
    """Return what a call returned that was given at most ``cap`` bytes.

    Where the system keeps no limit (``fenced``) the visible bytes alone decide, and then enough
    of the work has to be visible.
    """
    value, costs = measured(result, case)
    if costs.over:
        result.verdict = "over the cap"
        raise CheckFailed(
            "check.over_cap", case=case.words, cap=cap // MIB, largest=costs.largest_words()
        )
    if not costs.fenced:
        _expect_seen(costs, least, case)
    return value

"""What a check on several ranks is written with, beside :mod:`autograder.harness.checks`."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.harness.checks import CheckFailed
from autograder.reference.cases import Case
from autograder.sandbox.group import Each, Group, RankHandle, RankResult

__all__ = ["Each", "Group", "RankHandle", "RankResult", "expect_collectives"]


def expect_collectives(result: RankResult, want: int, case: Case, why: Text) -> None:
    """As many collectives in a counted call as ``want``, whichever they are."""
    if len(result.calls) != want:
        listed = ", ".join(result.calls[:8]) or "–"
        values = {"got": len(result.calls), "want": want, "listed": listed}
        words = {"en": why.en, "zh": why.zh}
        raise CheckFailed("check.collectives", case=case.words, why=words, **values)

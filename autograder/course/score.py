"""From results to points: pure functions, whole numbers."""

from __future__ import annotations

from autograder.course.records import CheckResult, HandIn, Lab, Outcome, Score


def points_of(lab: Lab, results: tuple[CheckResult, ...], exercise: str | None = None) -> Score:
    """Add up the points of a hand-in, or of one exercise of it.

    A check without a result counts as not graded: a missing record is never a zero.
    """
    by_name = {result.check: result for result in results}
    earned = gradable = total = 0
    for check in lab.checks:
        if exercise is not None and check.exercise != exercise:
            continue
        total += check.points
        result = by_name.get(check.name)
        if result is None or result.outcome is Outcome.NOT_GRADED:
            continue
        gradable += check.points
        earned += check.points if result.outcome is Outcome.PASSED else 0
    return Score(earned, gradable, total)


def needs_human(lab: Lab, hand_in: HandIn) -> bool:
    """Whether somebody has to look: undecided points, or a mark (a forbidden function)."""
    return points_of(lab, hand_in.results).undecided > 0 or bool(hand_in.marks)

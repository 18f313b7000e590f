"""From results to points: pure functions, whole numbers."""

from __future__ import annotations

from collections.abc import Mapping

from autograder.course.records import CheckResult, HandIn, Lab, Outcome, Score


def score_of(lab: Lab, hand_in: HandIn, exercise: str | None = None) -> Score:
    """The points of a hand-in, or of one exercise of it, a person's overrides applied."""
    decided = {override.check: override.points for override in hand_in.overrides}
    return points_of(lab, hand_in.results, exercise, decided)


def points_of(
    lab: Lab,
    results: tuple[CheckResult, ...],
    exercise: str | None = None,
    decided: Mapping[str, int] | None = None,
) -> Score:
    """Add up what results earn; ``decided`` holds points per check that overrule a result.

    A check without a result counts as not graded: a missing record is never a zero.
    """
    decided = decided or {}
    by_name = {result.check: result for result in results}
    earned = gradable = total = 0
    if exercise is None:
        checks = lab.checks
    else:
        checks = next((one.checks for one in lab.exercises if one.id == exercise), ())
    for check in checks:
        total += check.points
        if check.name in decided:
            gradable += check.points
            earned += decided[check.name]
            continue
        result = by_name.get(check.name)
        if result is None or result.outcome is Outcome.NOT_GRADED:
            continue
        gradable += check.points
        earned += check.points if result.outcome is Outcome.PASSED else 0
    return Score(earned, gradable, total)


def late_penalty_of(lab: Lab, hand_in: HandIn) -> int:
    """Whole points that do not count because the hand-in was late, rounded down."""
    return late_share(score_of(lab, hand_in).earned, hand_in)


def late_share(points: int, hand_in: HandIn) -> int:
    """What lateness takes of so many points of a hand-in, rounded down."""
    if hand_in.lateness is None:
        return 0
    return points * min(100, max(0, hand_in.lateness.percent)) // 100


def final_of(lab: Lab, hand_in: HandIn) -> int:
    """The points that count: what was earned so far, less what lateness costs."""
    return score_of(lab, hand_in).earned - late_penalty_of(lab, hand_in)


def is_late(hand_in: HandIn) -> bool | None:
    """By the course's due time where that can be told, else as the course system says."""
    if hand_in.lateness is None or hand_in.lateness.days is None:
        return hand_in.origin.late
    return hand_in.lateness.days > 0


def needs_human(lab: Lab, hand_in: HandIn) -> bool:
    """Whether somebody has to look: undecided points, or a mark (a forbidden function)."""
    return score_of(lab, hand_in).undecided > 0 or bool(hand_in.marks)

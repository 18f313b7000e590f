"""From results to points: pure functions; only what a person decides is no whole number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autograder.course.records import Check, CheckResult, HandIn, Lab, Outcome, Override, Score


def score_of(lab: Lab, hand_in: HandIn, exercise: str | None = None) -> Score:
    """The points of a hand-in, or of one exercise of it, a person's overrides applied."""
    whole, by_exercise, by_check = _points_decided(hand_in)
    by_name = {result.check: result for result in hand_in.results}
    earned: float = 0
    gradable = total = 0
    for one in lab.exercises:
        if exercise not in (None, one.id):
            continue
        total += one.points
        if one.id in by_exercise:
            earned += by_exercise[one.id]
            gradable += one.points
        else:
            score = _sum(one.checks, by_name, by_check)
            earned += score.earned
            gradable += score.gradable
    if exercise is None and whole is not None:
        earned, gradable = whole, total
    extra = sum(one.bonus for one in hand_in.overrides if _is_within(lab, one, exercise))
    return Score(neat(max(0, earned + extra)), gradable, total)


def neat(points: float) -> float:
    """A whole number as such, so that it is shown as one."""
    return int(points) if float(points).is_integer() else points


def decided_checks(lab: Lab, hand_in: HandIn) -> set[str]:
    """Names of the checks whose points a person has decided, one by one or together."""
    whole, by_exercise, by_check = _points_decided(hand_in)
    together = (e for e in lab.exercises if whole is not None or e.id in by_exercise)
    return {*by_check, *(check.name for one in together for check in one.checks)}


def check_decisions(hand_in: HandIn) -> dict[str, float]:
    """The points that a person has given for single checks."""
    return _points_decided(hand_in)[2]


def _points_decided(hand_in: HandIn) -> tuple[float | None, dict[str, float], dict[str, float]]:
    """Points for the whole hand-in, for exercises, and for checks."""
    whole: float | None = None
    by_exercise: dict[str, float] = {}
    by_check: dict[str, float] = {}
    for one in hand_in.overrides:
        if one.points is None:
            continue
        if one.check:
            by_check[one.check] = one.points
        elif one.exercise:
            by_exercise[one.exercise] = one.points
        else:
            whole = one.points
    return whole, by_exercise, by_check


def _is_within(lab: Lab, override: Override, exercise: str | None) -> bool:
    """Return whether an override is on an exercise or on a check of it; all are on the hand-in."""
    if exercise is None:
        return True
    checks = (check for check in lab.checks if check.name == override.check)
    return exercise in (override.exercise, *(check.exercise for check in checks))


def points_of(
    lab: Lab, results: Iterable[CheckResult], decided: Mapping[str, float] | None = None
) -> Score:
    """Add up what results earn; ``decided`` holds points per check that overrule a result."""
    return _sum(lab.checks, {result.check: result for result in results}, decided or {})


def _sum(
    checks: Iterable[Check], results: Mapping[str, CheckResult], decided: Mapping[str, float]
) -> Score:
    """A check without a result counts as not graded: a missing record is never a zero."""
    earned: float = 0
    gradable = total = 0
    for check in checks:
        total += check.points
        if check.name in decided:
            gradable += check.points
            earned += decided[check.name]
            continue
        result = results.get(check.name)
        if result is None or result.outcome is Outcome.NOT_GRADED:
            continue
        gradable += check.points
        earned += check.points if result.outcome is Outcome.PASSED else 0
    return Score(neat(earned), gradable, total)


def late_penalty_of(lab: Lab, hand_in: HandIn) -> int:
    """Whole points that do not count because the hand-in was late, rounded down."""
    return late_share(score_of(lab, hand_in).earned, hand_in)


def late_share(points: float, hand_in: HandIn) -> int:
    """Return what lateness takes of so many points of a hand-in, rounded down."""
    if hand_in.lateness is None:
        return 0
    return int(points * min(100, max(0, hand_in.lateness.percent)) // 100)


def final_of(lab: Lab, hand_in: HandIn) -> float:
    """The points that count: what was earned so far, less what lateness costs."""
    return neat(score_of(lab, hand_in).earned - late_penalty_of(lab, hand_in))


def is_late(hand_in: HandIn) -> bool | None:
    """By the course's due time where that can be told, else as the course system says."""
    if hand_in.lateness is None or hand_in.lateness.days is None:
        return hand_in.origin.late
    return hand_in.lateness.days > 0


def looked_at(hand_in: HandIn) -> bool:
    """Say whether a person says to have looked at the marks, or has decided the whole hand-in."""
    whole = _points_decided(hand_in)[0] is not None
    return whole or any(override.looked_at for override in hand_in.overrides)


def needs_human(lab: Lab, hand_in: HandIn) -> bool:
    """Say whether somebody has to look: undecided points, or a mark that nobody has looked at."""
    return score_of(lab, hand_in).undecided > 0 or bool(hand_in.marks and not looked_at(hand_in))

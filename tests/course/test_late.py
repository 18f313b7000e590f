"""Lateness: started days after due and grace, whatever the zones; whole points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.course.late import DAY, Extension, Lateness, LateRules, lateness
from autograder.course.records import CheckResult, HandIn, Outcome
from autograder.course.score import final_of, is_late, late_penalty_of, score_of
from tests.report.test_report import ALL_PASSED, LAB

DUE = datetime(2026, 10, 12, 23, 59, tzinfo=timezone(timedelta(hours=8)))
RULES = LateRules(DUE.isoformat(), grace_minutes=15, percent_per_day=10, max_days=5)
MOMENTS = st.timedeltas(min_value=timedelta(days=-40), max_value=timedelta(days=40))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))


def late(over: timedelta, rules: LateRules = RULES, *extensions: Extension) -> Lateness:
    """The lateness of a hand-in that came so long after due and grace."""
    at = DUE + timedelta(minutes=rules.grace_minutes) + over
    return lateness(rules, at.isoformat(), extensions)


@pytest.mark.parametrize(
    ("over", "days"),
    [
        (timedelta(days=-3), 0),
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=1), 1),
        (DAY, 1),
        (DAY + timedelta(microseconds=1), 2),
        (5 * DAY, 5),
    ],
)
def test_days_are_started_days_after_the_grace(over: timedelta, days: int) -> None:
    assert late(over) == Lateness(DUE.isoformat(), days=days, percent=10 * days)


def test_after_the_last_day_nothing_counts_and_without_one_every_day_is_taken() -> None:
    over = 5 * DAY + timedelta(seconds=1)
    assert late(over) == Lateness(DUE.isoformat(), days=6, percent=100, closed=True)
    endless = LateRules(DUE.isoformat(), percent_per_day=30)
    assert late(2 * DAY, endless).percent == 60
    assert late(30 * DAY, endless) == Lateness(DUE.isoformat(), days=30, percent=100)
    none_taken = LateRules(DUE.isoformat(), percent_per_day=10, max_days=0)
    assert late(timedelta(seconds=1), none_taken).closed and not late(timedelta(0)).closed


@given(MOMENTS, ZONES, ZONES)
def test_zones_change_nothing(over: timedelta, here: timezone, there: timezone) -> None:
    rules = LateRules(DUE.astimezone(here).isoformat(), 15, 10, 5)
    at = (DUE + over).astimezone(there)
    told, same = lateness(rules, at.isoformat(), ()), lateness(RULES, (DUE + over).isoformat(), ())
    assert (told.days, told.percent, told.closed) == (same.days, same.percent, same.closed)


@given(MOMENTS, st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9)))
def test_later_never_costs_less_and_an_extension_never_costs_more(
    over: timedelta, more: timedelta
) -> None:
    assert late(over + more).percent >= late(over).percent
    longer = Extension("a", (DUE + more).isoformat(), "")
    shorter = Extension("a", (DUE - more).isoformat(), "")
    assert late(over + more, RULES, longer).percent == late(over).percent
    assert late(over, RULES, shorter) == late(over)  # one that ends earlier takes no time away
    assert late(over, RULES, shorter, longer) == late(over, RULES, longer)


@given(st.integers(0, 60 * 24 * 7), st.timedeltas(timedelta(0), timedelta(days=9)))
def test_grace_moves_the_line_and_nothing_else(grace: int, over: timedelta) -> None:
    assert late(over, LateRules(DUE.isoformat(), grace, 10, 5)) == late(over)


def test_a_change_of_the_clocks_changes_nothing() -> None:
    """Europe, 25 October 2026: 24 hours later is the same day late, though a clock says 22:59."""
    due = datetime(2026, 10, 24, 23, 59, tzinfo=timezone(timedelta(hours=2)))
    winter = timezone(timedelta(hours=1))
    rules = LateRules(due.isoformat(), percent_per_day=10)
    assert lateness(rules, "2026-10-25T22:59:00+01:00", ()).days == 1
    assert lateness(rules, "2026-10-25T22:59:01+01:00", ()).days == 2
    assert (due + DAY).astimezone(winter).isoformat() == "2026-10-25T22:59:00+01:00"


@pytest.mark.parametrize(
    ("submitted_at", "offset", "days", "why"),
    [
        ("", "", None, "no_time"),
        ("yesterday", "+08:00", None, "no_time"),
        ("2026-10-20T08:00:00", "", None, "no_offset"),
        ("2026-10-13T00:14:00", "+08:00", 0, ""),
        ("2026-10-13T00:15:00", "+08:00", 1, ""),
        ("2026-10-12T16:15:00", "Z", 1, ""),
        ("2026-10-12T16:14:00+00:00", "+08:00", 0, ""),
    ],
)
def test_a_time_that_is_not_known_costs_nothing(
    submitted_at: str, offset: str, days: int | None, why: str
) -> None:
    rules = LateRules(DUE.isoformat(), 15, 10, 5, offset)
    told = lateness(rules, submitted_at, ())
    assert (told.days, told.why) == (days, why)
    assert bool(told.percent) == bool(days)


def test_a_time_that_a_person_has_entered_counts_where_the_system_tells_none() -> None:
    told = Extension("a", DUE.isoformat(), "", "2026-10-14T12:00:00+08:00")
    late = lateness(RULES, "", (told,))
    assert (late.days, late.told_by_hand) == (2, told.handed_in)
    known = lateness(RULES, "2026-10-12T12:00:00+08:00", (told,))
    assert (known.days, known.told_by_hand) == (0, "")
    assert lateness(RULES, "2026-10-12T12:00:00", (told,)).days == 2  # without an offset


def test_a_due_time_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset"):
        lateness(LateRules("2026-10-12T23:59:00"), datetime.now(UTC).isoformat(), ())


def with_points(points: int, lateness: Lateness | None) -> HandIn:
    """A hand-in that earns about so many points."""
    results, earned = [], 0
    for check in LAB.checks:
        passed = earned + check.points <= points
        earned += check.points if passed else 0
        results.append(CheckResult(check.name, Outcome.PASSED if passed else Outcome.FAILED))
    return HandIn("a", tuple(results), lateness=lateness)


@given(st.integers(0, 100), st.integers(-50, 300))
def test_the_penalty_is_whole_points_rounded_for_the_student(points: int, percent: int) -> None:
    hand_in = with_points(points, Lateness("", days=1, percent=percent))
    earned, penalty = score_of(LAB, hand_in).earned, late_penalty_of(LAB, hand_in)
    exact = earned * min(100, max(0, percent)) / 100
    assert exact - 1 < penalty <= exact and type(penalty) is int
    assert final_of(LAB, hand_in) == earned - penalty >= 0
    assert score_of(LAB, hand_in) == score_of(LAB, with_points(points, None))


def test_only_the_course_overrules_what_the_course_system_says() -> None:
    assert final_of(LAB, ALL_PASSED) == 100 and is_late(ALL_PASSED) is None
    assert is_late(with_points(9, Lateness("", days=0))) is False
    assert is_late(with_points(9, Lateness("", days=2))) is True
    assert is_late(with_points(9, Lateness("", days=None))) is None

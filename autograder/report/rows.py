"""The exercises of one hand-in as rows of a scoreboard."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from autograder.course.records import Check, CheckResult, ClassRecord, Exercise, Message, Outcome

BAD = (Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)


@dataclass(frozen=True)
class Row:
    """One exercise as it stands; ``missed`` are its checks that did not pass."""

    exercise: Exercise
    checks: tuple[Check, ...]
    missed: tuple[tuple[Check, CheckResult], ...]

    @property
    def kind(self) -> str:
        """``passed``, ``failed``, ``not_started`` or ``other`` (waits for something)."""
        outcomes = [result.outcome for _, result in self.missed]
        if not outcomes:
            return "passed"
        if all(outcome is Outcome.NOT_STARTED for outcome in outcomes):
            return "not_started"
        return "failed" if any(outcome in BAD for outcome in outcomes) else "other"

    @property
    def points(self) -> tuple[int, int]:
        """Earned, and worth."""
        worth = sum(check.points for check in self.checks)
        return worth - sum(check.points for check, _ in self.missed), worth

    @property
    def name(self) -> str:
        """What ``K=`` calls it."""
        return short(self.exercise.id)

    @property
    def reason(self) -> Message | None:
        """Why the first check that was missed did not pass; None where that needs no words."""
        return self.missed[0][1].message if self.missed and self.kind != "not_started" else None


def short(exercise: str) -> str:
    """An exercise's id without its lab."""
    return exercise.partition(".")[2] or exercise


def rows_of(record: ClassRecord, chosen: Collection[str]) -> list[Row]:
    """The exercises that have one of the ``chosen`` checks, as they stand."""
    results = {result.check: result for result in record.hand_ins[0].results}
    rows = []
    for exercise in record.lab.exercises:
        checks = tuple(check for check in exercise.checks if check.name in chosen)
        missed = tuple(
            (check, results[check.name])
            for check in checks
            if results[check.name].outcome is not Outcome.PASSED and not check.optional
        )
        if checks:
            rows.append(Row(exercise, checks, missed))
    return rows

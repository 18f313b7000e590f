"""The checks of a hand-in as other systems list them: one line each, with points and a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autograder.course.records import Check, ClassRecord, HandIn, Outcome
from autograder.report import escape
from autograder.report.view import CheckView, label, student_view


@dataclass(frozen=True)
class CheckLine:
    """One check; ``number`` is that of its exercise and its own, ``1.2``.

    ``state`` is ``passed`` (all its points), ``failed`` (fewer), ``skipped`` (what it builds on did
    not pass; earns nothing either), ``open`` (a person has to decide) or ``absent`` (an optional
    check for which something is missing, or one whose points a person has decided with others: no
    points of its own, nobody's business).
    """

    number: str
    exercise: str
    check: Check
    view: CheckView
    state: str

    @property
    def text(self) -> str:
        """Outcome, why, by whom it was decided, where it happened and what was printed.

        As much as the student's report shows: nothing but that it was one of a hidden case.
        """
        view = self.view
        return "\n".join(filter(None, (view.word, view.decided, view.reason, view.trace)))


def check_lines(record: ClassRecord, hand_in: HandIn, language: str) -> Iterator[CheckLine]:
    """The checks in the order of the lab, in words that need no markup."""
    shown = student_view(record, hand_in, language, quote=escape.line)
    pairs = zip(record.lab.exercises, shown.exercises, strict=True)
    for place, (exercise, theirs) in enumerate(pairs, 1):
        for number, (check, view) in enumerate(zip(exercise.checks, theirs.checks, strict=True), 1):
            yield CheckLine(f"{place}.{number}", exercise.id, check, view, _state(view))


def title_of(line: CheckLine) -> str:
    """What a check is called where exercises have no headings of their own."""
    return f"{line.exercise}: {line.view.title.replace('`', '')}"


def prints_of(line: CheckLine, language: str) -> str:
    """What the student's code printed, with a heading; empty where it printed nothing."""
    return f"{label('prints', language)}:\n{line.view.prints}" if line.view.prints else ""


def _state(view: CheckView) -> str:
    if view.settled and view.decided:
        return "passed" if view.earned >= view.points else "failed"
    if view.outcome is Outcome.NOT_GRADED:
        return "absent" if view.optional or view.settled else "open"
    if view.outcome is Outcome.PASSED:
        return "passed"
    return "skipped" if view.outcome is Outcome.SKIPPED else "failed"

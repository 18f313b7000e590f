"""What a student reads first: the one exercise to work on now, and with what."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.course.records import FEEDBACK, HandIn, Lab, Outcome
from autograder.report.next_step import number_of
from autograder.report.rows import short
from autograder.report.view import CheckView, ExerciseView, StudentView, label


@dataclass(frozen=True)
class FirstStep:
    """The next step; where nothing is left to do, ``said`` alone is not empty.

    ``title`` and ``hint`` are the course's words and may hold code in backticks; ``reason`` is
    fit for the medium, as the view's reasons are.
    """

    said: str
    title: str = ""
    reason: str = ""
    hint: str = ""
    command: str = ""


def first_step(lab: Lab, hand_in: HandIn, view: StudentView, language: str) -> FirstStep:
    """The file that could not be used, or the first exercise that the student can still mend."""
    number = number_of(lab)
    for broken in view.broken:
        if not broken.open and broken.points:
            return FirstStep(
                said=label("next_points", language, points=broken.points),
                title=label("next_file", language, files=broken.files),
                command=f"make test LAB={number}" if number.isdigit() else "",
            )
    for exercise in view.exercises:
        for check in exercise.apart:
            fine = check.outcome in (Outcome.PASSED, Outcome.NOT_GRADED)
            if fine or check.optional or check.settled or check.outcome is Outcome.SKIPPED:
                continue
            points = sum(one.points for one in exercise.apart if _is_lost(one))
            name = short(exercise.id)
            return FirstStep(
                said=label("next_points", language, points=points) if points else "",
                title=exercise.title,
                reason=check.reason,
                hint=_hint(lab, hand_in, exercise, language),
                command=f"make test LAB={number} K={name}" if number.isdigit() else "",
            )
    if view.score.undecided:
        return FirstStep(label("next_human", language))
    return FirstStep(label("next_decided" if view.changed else "next_none", language))


def _is_lost(check: CheckView) -> bool:
    """Whether the student can still earn its points."""
    return not check.settled and check.outcome not in (Outcome.PASSED, Outcome.NOT_GRADED)


def _hint(lab: Lab, hand_in: HandIn, exercise: ExerciseView, language: str) -> str:
    """That of the mistake that was recognised there, as far as feedback tells, or its own."""
    if lab.feedback != FEEDBACK[0]:
        for finding in hand_in.findings:
            if exercise.id in finding.exercises and len(finding.misconceptions) == 1:
                return finding.misconceptions[0].hint.in_(language)
    return exercise.hint

"""Classes for tests of exports: read by the real intake from a download, graded by decree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autograder import intake
from autograder.course.late import Lateness
from autograder.course.records import (
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    HandIn,
    Isolation,
    Outcome,
    Text,
)
from autograder.intake import attempts
from autograder.intake.people import Enrolment
from autograder.report.write import class_files, student_reports
from tests.archives import LAB as FILES_ONLY

_CHECKS = tuple(
    Check(name, "attention", "shape", points, Text(name, name), needs=())
    for name, points in (("shapes", 60), ("values", 25), ("costs", 15))
)
LAB = replace(
    FILES_ONLY,
    exercises=(Exercise("attention", "attention.py", Text("A", "甲"), Text("", ""), _CHECKS),),
)
# Which checks pass, by the points that this earns; None: the last one could not be graded.
_PASSED = {100: 3, 85: 2, 60: 1, 0: 0, None: 2}


def graded(
    source: Path,
    out: Path,
    points: Mapping[str, int | None],
    enrolment: Enrolment | None = None,
    late: Mapping[str, int] | None = None,
) -> ClassRecord:
    """The class of a download, written to ``out``.

    ``points``, and the per cent of them that lateness takes off, go by a part of the student's id.
    """
    entries = attempts.last(intake.survey(source, LAB).entries)
    hand_ins = []
    for entry in entries:
        submission = intake.read(entry, LAB)
        earned = next((p for part, p in points.items() if part in entry.student), 100)
        hand_in = HandIn(
            entry.student, _results(earned), submission.notes, origin=submission.origin
        )
        percent = next((p for part, p in (late or {}).items() if part in entry.student), 0)
        if percent:
            lateness = Lateness("2026-11-01T00:00:00Z", days=1, percent=percent)
            hand_in = replace(hand_in, lateness=lateness)
        hand_ins.append(enrolment.completed(hand_in) if enrolment else hand_in)
    record = ClassRecord(LAB, Isolation("strong", (), "fork"), {}, tuple(hand_ins))
    for hand_in in hand_ins:
        student_reports(record, hand_in, out, "en")
    class_files(record, out)
    return record


def _results(earned: int | None) -> tuple[CheckResult, ...]:
    passed = _PASSED[earned]
    outcomes = [Outcome.PASSED if at < passed else Outcome.FAILED for at in range(len(_CHECKS))]
    if earned is None:
        outcomes[-1] = Outcome.NOT_GRADED
    return tuple(
        CheckResult(check.name, outcome) for check, outcome in zip(_CHECKS, outcomes, strict=True)
    )

"""``scores.csv``: one row per hand-in, with the column names of nbgrader's export."""

from __future__ import annotations

import csv
import io

from autograder.course.records import ClassRecord, HandIn, Lab, Student
from autograder.course.score import score_of
from autograder.report.escape import csv_cell

COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)
GRADED = "graded"
TO_BE_DECIDED = "to be decided"
FOR_A_HUMAN = "for a human"
MISSING = "nothing handed in"
ENDING = ("status", "late", "attempt", "sids", "students", "emails", "decided_by")


def scores(record: ClassRecord) -> str:
    """The table as CSV text (commas, ``\\n``).

    After nbgrader's columns come one per exercise, ``status``, ``late``, ``attempt``, then
    ``sids`` (the course system's or the roster's), ``students`` and ``emails`` of everybody who
    handed this in, joined by ``; ``, and ``decided_by``. Who is on the roster and handed in
    nothing has a row without a score.

    ``raw_score`` is what was earned so far. ``score``, and an exercise's column, stays empty
    while some of its points are to be decided: a number there would be read as final.
    """
    exercises = [exercise.id for exercise in record.lab.exercises]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in (*COLUMNS, *exercises, *ENDING)])
    for hand_in in record.hand_ins:
        writer.writerow(_row(record.lab, hand_in, exercises))
    for student in record.missing:
        cells = {"assignment": record.lab.name, "student_id": student.id, "email": student.email}
        cells |= {"last_name": student.name, "max_score": str(record.lab.points)}
        row = [csv_cell(cells.get(name, "")) for name in COLUMNS]
        people = [student.id, student.name, student.email]
        ending = [MISSING, "", "", *map(csv_cell, people), ""]
        writer.writerow([*row, *([""] * len(exercises)), *ending])
    return text.getvalue()


def _row(lab: Lab, hand_in: HandIn, exercises: list[str]) -> list[str]:
    total = score_of(lab, hand_in)
    origin = hand_in.origin
    first = origin.students[0] if origin.students else Student("")
    known = {
        "assignment": csv_cell(lab.name),
        "timestamp": csv_cell(origin.submitted_at),
        "last_name": csv_cell(first.name),  # whole: nobody knows how to cut it
        "email": csv_cell(first.email),
        "student_id": csv_cell(hand_in.student),
        "raw_score": str(total.earned),
        "score": "" if total.undecided else str(total.earned),
        "max_score": str(total.total),
    }
    cells = [known.get(name, "") for name in COLUMNS]
    for exercise in exercises:
        score = score_of(lab, hand_in, exercise)
        cells.append("" if score.undecided else str(score.earned))
    status = FOR_A_HUMAN if hand_in.marks else GRADED
    return [
        *cells,
        TO_BE_DECIDED if total.undecided else status,
        "" if origin.late is None else str(origin.late).lower(),
        str(origin.attempt),
        csv_cell("; ".join(one.id for one in origin.students)),
        csv_cell("; ".join(one.name for one in origin.students)),
        csv_cell("; ".join(one.email for one in origin.students)),
        csv_cell("; ".join(dict.fromkeys(one.by for one in hand_in.overrides))),
    ]

"""``scores.csv``: one row per hand-in, with the column names of nbgrader's export."""

from __future__ import annotations

import csv
import io

from autograder.course.records import ClassRecord, HandIn, Lab
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


def scores(record: ClassRecord) -> str:
    """The table as CSV text (commas, ``\\n``), ending in a column per exercise and ``status``.

    ``raw_score`` is what was earned so far. ``score``, and an exercise's column, stays empty
    while some of its points are to be decided: a number there would be read as final.
    """
    exercises = [exercise.id for exercise in record.lab.exercises]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in (*COLUMNS, *exercises, "status")])
    for hand_in in record.hand_ins:
        writer.writerow(_row(record.lab, hand_in, exercises))
    return text.getvalue()


def _row(lab: Lab, hand_in: HandIn, exercises: list[str]) -> list[str]:
    total = score_of(lab, hand_in)
    known = {
        "assignment": csv_cell(lab.name),
        "student_id": csv_cell(hand_in.student),
        "raw_score": str(total.earned),
        "score": "" if total.undecided else str(total.earned),
        "max_score": str(total.total),
    }
    cells = [known.get(name, "") for name in COLUMNS]
    for exercise in exercises:
        score = score_of(lab, hand_in, exercise)
        cells.append("" if score.undecided else str(score.earned))
    if total.undecided:
        return [*cells, TO_BE_DECIDED]
    return [*cells, FOR_A_HUMAN if hand_in.marks else GRADED]

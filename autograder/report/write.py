"""Puts reports on disk, each file whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.course.atomic import write_atomic, writing
from autograder.course.records import ClassRecord, HandIn, Lab, Student
from autograder.course.score import final_of, is_late, late_penalty_of, looked_at, score_of
from autograder.report import class_mistakes, dashboard, student_pages
from autograder.report.class_file import ClassText
from autograder.report.class_mistakes import Mistakes
from autograder.report.class_summary import ClassSummary, Summary, look
from autograder.report.escape import csv_cell

# ``scores.csv``: one row per hand-in, with the column names of nbgrader's export.

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
ENDING = ("status", "late", "attempt", "sids", "students", "emails", "decided_by", "days_late")


class Scores:
    """The table as CSV text (commas, ``\\n``), given out row by row.

    After nbgrader's columns come one per exercise, ``status``, ``late``, ``attempt``, then
    ``sids`` (the course system's or the roster's), ``students`` and ``emails`` of everybody who
    handed this in, joined by ``; ``, ``decided_by``, and ``days_late``. Who is on the roster and
    handed in nothing has a row without a score.

    ``raw_score`` is what was earned so far; ``score`` is that less ``late_submission_penalty``.
    ``score``, and an exercise's column, stays empty while some of its points are to be decided: a
    number there would be read as final. ``duedate`` is the student's own, extensions applied; it
    and the penalty stay empty where no course file says when the lab was due.

    Args:
        lab: what was graded.
        write: takes the rows.
    """

    def __init__(self, lab: Lab, write: Callable[[str], object]) -> None:
        self._lab = lab
        self._exercises = [exercise.id for exercise in lab.exercises]
        self._writer = csv.writer(_Stream(write), lineterminator="\n")
        self._writer.writerow([csv_cell(name) for name in (*COLUMNS, *self._exercises, *ENDING)])

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        self._writer.writerow(_row(self._lab, hand_in, self._exercises))

    def end(self, missing: Iterable[Student]) -> None:
        """There are no more, and these students handed in nothing."""
        for student in missing:
            cells = {"assignment": self._lab.name, "student_id": student.id}
            cells |= {"max_score": str(self._lab.points)} | _person(student)
            row = [csv_cell(cells.get(name, "")) for name in COLUMNS]
            people = [student.id, student.name, student.email]
            ending = [MISSING, "", "", *map(csv_cell, people), "", ""]
            self._writer.writerow([*row, *([""] * len(self._exercises)), *ending])


@dataclass(frozen=True)
class _Stream:
    """A stream for :mod:`csv` to write to."""

    write: Callable[[str], object]


def scores(record: ClassRecord) -> str:
    """The whole table of a class; see :class:`Scores`."""
    text = io.StringIO()
    rows = Scores(record.lab, text.write)
    look(record.hand_ins, [rows])
    rows.end(record.missing)
    return text.getvalue()


def _row(lab: Lab, hand_in: HandIn, exercises: list[str]) -> list[str]:
    total = score_of(lab, hand_in)
    origin, late = hand_in.origin, hand_in.lateness
    first = origin.students[0] if origin.students else Student("")
    known = {
        "assignment": csv_cell(lab.name),
        "timestamp": csv_cell(origin.submitted_at),
        **{column: csv_cell(text) for column, text in _person(first).items()},
        "student_id": csv_cell(hand_in.student),
        "raw_score": str(total.earned),
        "score": "" if total.undecided else str(final_of(lab, hand_in)),
        "max_score": str(total.total),
    }
    if late is not None:
        known["duedate"] = csv_cell(late.due)
        known["timestamp"] = csv_cell(origin.submitted_at or late.told_by_hand)
        known["late_submission_penalty"] = str(late_penalty_of(lab, hand_in))
    cells = [known.get(name, "") for name in COLUMNS]
    for exercise in exercises:
        score = score_of(lab, hand_in, exercise)
        cells.append("" if score.undecided else str(score.earned))
    status = FOR_A_HUMAN if hand_in.marks and not looked_at(hand_in) else GRADED
    return [
        *cells,
        TO_BE_DECIDED if total.undecided else status,
        "" if is_late(hand_in) is None else str(is_late(hand_in)).lower(),
        str(origin.attempt),
        csv_cell("; ".join(one.id for one in origin.students)),
        csv_cell("; ".join(one.name for one in origin.students)),
        csv_cell("; ".join(one.email for one in origin.students)),
        csv_cell("; ".join(dict.fromkeys(one.by for one in hand_in.overrides))),
        "" if late is None or late.days is None else str(late.days),
    ]


def _person(student: Student) -> dict[str, str]:
    """Names as the roster gave them; without first and last ones the whole name is the last."""
    known = student.first_name or student.last_name
    return {
        "last_name": student.last_name if known else student.name,
        "first_name": student.first_name,
        "email": student.email,
    }


OVERVIEW = ("dashboard.html", "misconceptions.md", "misconceptions.csv")


def student_reports(
    record: ClassRecord, hand_in: HandIn, out: Path, language: str
) -> tuple[Path, Path]:
    """Write ``OUT/<student>/report.md`` and ``report.html`` in one language.

    The records hold keys and values, so the other language can be rendered any time.

    Raises:
        ValueError: the student id is not a plain file name (intake makes only such).
        OSError: the folder cannot be written.
    """
    student = hand_in.student
    if student in ("", ".", "..") or any(character in student for character in "/\\:\0"):
        raise ValueError(f"class.json: student id {student!r} is not a plain folder name; mend it")
    folder = out / student
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "report.md", folder / "report.html"
    write_atomic(paths[0], student_pages.student_markdown(record, hand_in, language))
    write_atomic(paths[1], student_pages.student_html(record, hand_in, language))
    return paths


class Reports:
    """Writes every student's reports; a summary that tells nothing."""

    def __init__(self, record: ClassRecord, out: Path, language: str) -> None:
        self._record, self._out, self._language = record, out, language

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        student_reports(self._record, hand_in, self._out, self._language)


class Overview:
    """Gathers what the page of a class and the list of its mistakes tell, and writes both."""

    def __init__(self, lab: Lab) -> None:
        self._mistakes, self._glance = Mistakes(lab), ClassSummary(lab)

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        self._mistakes.take(hand_in)
        self._glance.take(hand_in)

    def write(self, record: ClassRecord, out: Path, language: str) -> list[str]:
        """Write ``OVERVIEW``; returns the lines on mistakes for the terminal.

        Args:
            record: the class that was taken; its hand-ins are not looked at again.
            out: where to.
            language: ``en`` or ``zh``.
        """
        survey = self._mistakes.survey()
        page, listed, table = (out / name for name in OVERVIEW)
        write_atomic(page, dashboard.page(record, self._glance, survey, language))
        write_atomic(listed, class_mistakes.markdown(survey, language))
        write_atomic(table, class_mistakes.table(survey, language))
        return class_mistakes.lines(survey, language)


def class_files(record: ClassRecord, out: Path, also: Sequence[Summary] = ()) -> tuple[Path, Path]:
    """Write ``OUT/class.json`` and ``OUT/scores.csv``, reading every hand-in once.

    Args:
        record: the class; its hand-ins may be read from disk while this runs.
        out: made if it is not there.
        also: whoever tells something else of the class takes its hand-ins in the same look.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = out / "class.json", out / "scores.csv"
    with writing(paths[0], durable=True) as whole, writing(paths[1], durable=True) as table:
        text, rows = ClassText(record, whole), Scores(record.lab, table)
        look(record.hand_ins, [text, rows, *also])
        text.end()
        rows.end(record.missing)
    return paths

"""Puts reports on disk, each file whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.course.atomic import write_atomic as write_atomic
from autograder.course.atomic import writing
from autograder.course.records import ClassRecord, HandIn, Lab
from autograder.report import class_mistakes_text, dashboard, html, markdown
from autograder.report.class_mistakes import Mistakes
from autograder.report.csv_scores import Scores
from autograder.report.glance import Glance
from autograder.report.one_pass import Summary, look
from autograder.report.record import ClassText

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
    write_atomic(paths[0], markdown.student(record, hand_in, language))
    write_atomic(paths[1], html.student(record, hand_in, language))
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
        self._mistakes, self._glance = Mistakes(lab), Glance(lab)

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
        write_atomic(listed, class_mistakes_text.markdown(survey, language))
        write_atomic(table, class_mistakes_text.table(survey, language))
        return class_mistakes_text.lines(survey, language)


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

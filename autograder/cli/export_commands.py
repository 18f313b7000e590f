"""``export``: a graded class for other systems. Each kind is a command of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograder.cli import export_results_commands
from autograder.cli.commands import Commands


def add(commands: Commands) -> None:
    """Add ``export`` and its kinds, and what is written for similarity tools."""
    text = "write what a course system reads: grade books, feedback"
    kinds = commands.group("export", text)

    text = "fill the grade book that Canvas has exported; every other byte stays as it is"
    canvas = kinds.add("canvas", _canvas, text, lab=None)
    _book(canvas)
    text = "title or number of the assignment (default: the one that names the lab)"
    canvas.add_argument("--column", metavar="TITLE", help=text)

    text = "fill the grading worksheet of a Moodle assignment; every other byte stays as it is"
    moodle = kinds.add("moodle", _moodle, text, lab=None)
    _book(moodle)
    text = "title of the column of grades (default: the one that Moodle calls so)"
    moodle.add_argument("--grade-column", metavar="TITLE", help=text)

    text = "hand-ins and base files in the layout of JPlag and compare50"
    bundle = commands.add("bundle-for-similarity", _bundle, text)
    bundle.add_argument("submissions", type=Path, help="the class: a folder or archive")
    text = "a folder that is not there yet, or empty"
    bundle.add_argument("--to", type=Path, metavar="DIR", required=True, help=text)
    text = "how a hand-in's name tells the student: a regex with (?P<student_id>...)"
    bundle.add_argument("--pattern", metavar="REGEX", help=text)

    text = "one archive of all reports, to be uploaded where Canvas or Moodle takes feedback"
    feedback = kinds.add("feedback", _feedback, text, lab=None)
    feedback.add_argument("out", type=Path, help="folder that grade has written")
    text = "the hand-ins as the course system let you download them, packed or not"
    feedback.add_argument("--like", type=Path, metavar="DOWNLOAD", required=True, help=text)
    text = "where to (default: OUT/feedback.zip)"
    feedback.add_argument("--to", type=Path, metavar="FILE", help=text)

    export_results_commands.add(kinds)


def _book(kind: argparse.ArgumentParser) -> None:
    """What grade books have in common."""
    kind.add_argument("out", type=Path, help="folder that grade has written")
    text = "the file as it was downloaded; it stays as it is"
    kind.add_argument("book", type=Path, metavar="FILE", help=text)
    text = "where to (default: beside FILE, with -filled in its name)"
    kind.add_argument("--to", type=Path, metavar="FILE", help=text)
    text = "convert scores where the assignment is for other points than the lab"
    kind.add_argument("--scale", action="store_true", help=text)
    text = "an id that fits is enough, though the names differ"
    kind.add_argument("--trust-ids", action="store_true", help=text)


def _canvas(arguments: argparse.Namespace) -> int:
    from autograder.cli import export
    from autograder.exports import canvas

    return export.grade_book(
        arguments,
        lambda sheet, lab: canvas.book(sheet, lab, arguments.column),
    )


def _moodle(arguments: argparse.Namespace) -> int:
    from autograder.cli import export
    from autograder.exports import moodle

    return export.grade_book(arguments, lambda sheet, _: moodle.book(sheet, arguments.grade_column))


def _feedback(arguments: argparse.Namespace) -> int:
    from autograder.cli import export

    to = arguments.to or arguments.out / "feedback.zip"
    return export.feedback(arguments.out, arguments.like, to, arguments.lang)


def _bundle(arguments: argparse.Namespace) -> int:
    from autograder.cli import export

    line = arguments.submissions, arguments.lab, arguments.to, arguments.pattern
    return export.similarity(*line, language=arguments.lang)

"""``export``: a graded class for other systems. Each kind is a command of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograder.cli.commands import Commands

# ``export``, the kinds that other graders read: JUnit XML, Gradescope, GitHub.


def add_results(kinds: Commands) -> None:
    """Add them to ``export``."""
    text = "write test results as JUnit XML: a suite per student, a case per check"
    junit = kinds.add("junit", _junit, text, lab=None)
    junit.add_argument("out", type=Path, help="folder that grade has written")
    text = "where to (default: junit.xml in that folder)"
    junit.add_argument("--to", type=Path, metavar="FILE", help=text)

    text = "write Gradescope's results.json of every hand-in"
    results = kinds.add("gradescope-results", _gradescope_results, text, lab=None)
    results.add_argument("out", type=Path, help="folder that grade has written")
    text = "where to (default: results.json beside each student's report)"
    results.add_argument("--to", type=Path, metavar="FOLDER", help=text)

    text = "write the autograder zip with which Gradescope grades a lab by itself"
    gradescope = kinds.add("gradescope", _gradescope, text)
    text = "where to (default: gradescope-LAB.zip)"
    gradescope.add_argument("--to", type=Path, metavar="FILE", help=text)
    text = "what hidden cases are drawn from (default: a new one, which the zip holds)"
    gradescope.add_argument("--secret-file", type=Path, help=text)
    course = "course.toml: when labs are due, what a late hand-in costs, extensions"
    gradescope.add_argument("--course", type=Path, metavar="FILE", help=course)
    gradescope.add_argument(
        "--allow-weak-isolation", action="store_true", help="grade whatever layers are missing"
    )

    text = "write a GitHub Actions workflow that checks a lab's public cases at every push"
    github = kinds.add("github", _github, text)
    text = "folder of the template repository (default: dist/qwen3-labs-student)"
    github.add_argument("--to", type=Path, metavar="FOLDER", help=text)

    text = "write the autograder with which Classroom 50 checks a lab's public cases"
    classroom50 = kinds.add("classroom50", _classroom50, text)
    text = "where to (default: classroom50-LAB)"
    classroom50.add_argument("--to", type=Path, metavar="FOLDER", help=text)


def _classroom50(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    return targets.classroom50(arguments.lab, arguments.to, arguments.lang)


def _github(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    return targets.github_workflow(arguments.lab, arguments.to, arguments.lang)


def _gradescope_results(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    return targets.gradescope_results(arguments.out, arguments.to, arguments.lang)


def _gradescope(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    return targets.gradescope_zip(arguments)


def _junit(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    return targets.junit(arguments.out, arguments.to, arguments.lang)


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

    add_results(kinds)


def _book(kind: argparse.ArgumentParser) -> None:
    """Return what grade books have in common."""
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
    from autograder.exports import grade_books, targets

    return targets.grade_book(
        arguments,
        lambda sheet, lab: grade_books.canvas_book(sheet, lab, arguments.column),
    )


def _moodle(arguments: argparse.Namespace) -> int:
    from autograder.exports import grade_books, targets

    return targets.grade_book(
        arguments, lambda sheet, _: grade_books.moodle_book(sheet, arguments.grade_column)
    )


def _feedback(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    to = arguments.to or arguments.out / "feedback.zip"
    return targets.feedback(arguments.out, arguments.like, to, arguments.lang)


def _bundle(arguments: argparse.Namespace) -> int:
    from autograder.exports import targets

    line = arguments.submissions, arguments.lab, arguments.to, arguments.pattern
    return targets.similarity(*line, language=arguments.lang)

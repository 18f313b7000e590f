"""``export``, the kinds that other graders read: JUnit XML, Gradescope, GitHub."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograder.cli.commands import Commands


def add(kinds: Commands) -> None:
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
    from autograder.cli import export_results

    return export_results.classroom50(arguments.lab, arguments.to, arguments.lang)


def _github(arguments: argparse.Namespace) -> int:
    from autograder.cli import export_results

    return export_results.github_workflow(arguments.lab, arguments.to, arguments.lang)


def _gradescope_results(arguments: argparse.Namespace) -> int:
    from autograder.cli import export_results

    return export_results.gradescope_results(arguments.out, arguments.to, arguments.lang)


def _gradescope(arguments: argparse.Namespace) -> int:
    from autograder.cli import export_results

    return export_results.gradescope_zip(arguments)


def _junit(arguments: argparse.Namespace) -> int:
    from autograder.cli import export_results

    return export_results.junit(arguments.out, arguments.to, arguments.lang)

"""The commands of students. Their modules are imported when a command runs, and not before."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograder.cli.commands import Commands

_LIE = "where the files are (default: the lab)"
_NAMED = "only exercises or checks whose names match"


def add(commands: Commands) -> None:
    """Add them all."""
    text = "check your own files on the public cases"
    test = commands.add("test", _test, text, lab="")
    test.add_argument("-k", dest="match", default="", help=_NAMED)
    test.add_argument("--folder", type=Path, help=_LIE)
    text = "also write the results there, as JSON (with --lab)"
    test.add_argument("--json", type=Path, metavar="FILE", help=text)

    text = "also show what passing checks printed"
    test.add_argument("--prints", action="store_true", help=text)

    text = "pack your hand-in and run the public checks on it"
    submit = commands.add("submit", _submit, text)
    submit.add_argument("--id", default="", help="your student number")
    submit.add_argument("--name", default="", help="your name")
    submit.add_argument("--force", action="store_true", help="pack even if something is missing")
    submit.add_argument("--folder", type=Path, help=_LIE)
    submit.add_argument("--out", type=Path, help="folder for the zip (default: here)")

    text = "check again whenever a file is saved, in a process that stays warm"
    watch = commands.add("watch", _watch, text)
    watch.add_argument("-k", dest="match", default="", help=_NAMED)
    watch.add_argument("--folder", type=Path, help=_LIE)

    text = "a hint for the first open exercise, a step further each time"
    hint = commands.add("hint", _hint, text)
    hint.add_argument("-k", dest="match", default="", help=_NAMED)
    hint.add_argument("--folder", type=Path, help=_LIE)

    debug = commands.add("debug", _debug, "run checks in this process, for breakpoints")
    debug.add_argument("-k", dest="match", default="", help="only checks whose names match")
    debug.add_argument("--folder", type=Path, help=_LIE)

    text = "copy your files from one lab into another"
    carry = commands.add("carry", _carry, text, lab=None)
    carry.add_argument("--from", dest="source", default="2", metavar="LAB", help="the finished lab")
    carry.add_argument("--to", default="4", metavar="LAB", help="the lab to continue with")
    carry.add_argument("--force", action="store_true", help="overwrite files that were changed")
    lie = "where your files of that lab are (default: the lab)"
    carry.add_argument("--from-folder", type=Path, help=lie)
    carry.add_argument("--folder", type=Path, help="where to put them (default: the lab)")

    commands.add("spot", _spot, "say what is wrong with claims from teaching material (ungraded)")
    commands.add("review", _review, "the claims you got wrong, again: five minutes a day", lab=None)

    text = "start a lab over with its original files; yours are kept"
    reset = commands.add("reset", _reset, text)
    reset.add_argument("-k", dest="match", default="", help="only this file")
    reset.add_argument("--folder", type=Path, help=_LIE)

    text = "write scores, machine and figures into my_report.md; your own words stay"
    filled = commands.add("report", report, text, lab="")
    filled.add_argument("--folder", type=Path, help="where my_report.md is (default: here)")

    commands.add("doctor", _doctor, "check whether this machine can run the labs")


def _test(arguments: argparse.Namespace) -> int:
    from autograder.cli import student

    return student.test(
        arguments.lab,
        arguments.folder,
        arguments.match,
        arguments.lang,
        to=arguments.json,
        prints=arguments.prints,
    )


def _submit(arguments: argparse.Namespace) -> int:
    from autograder.cli import submit

    return submit.run(
        arguments.lab,
        arguments.folder,
        (arguments.id, arguments.name),
        arguments.lang,
        out=arguments.out,
        force=arguments.force,
    )


def _watch(arguments: argparse.Namespace) -> int:
    from autograder.cli import watch

    return watch.run(arguments.lab, arguments.folder, arguments.match, arguments.lang)


def _hint(arguments: argparse.Namespace) -> int:
    from autograder.cli import hint

    return hint.run(arguments.lab, arguments.folder, arguments.match, arguments.lang)


def _debug(arguments: argparse.Namespace) -> int:
    from autograder.cli import student

    return student.debug(arguments.lab, arguments.folder, arguments.match, arguments.lang)


def _carry(arguments: argparse.Namespace) -> int:
    from autograder.cli import own_files
    from autograder.course import labfile

    source, target = (
        labfile.load(labfile.find_lab(name)) for name in (arguments.source, arguments.to)
    )
    folders = arguments.from_folder or source.folder, arguments.folder or target.folder
    return own_files.run_carry(source, target, folders, arguments.lang, force=arguments.force)


def _spot(arguments: argparse.Namespace) -> int:
    from autograder.cli import spot

    return spot.run(arguments.lab, arguments.lang)


def _review(arguments: argparse.Namespace) -> int:
    from datetime import date

    from autograder.cli import review

    return review.run(arguments.lang, date.today())


def _reset(arguments: argparse.Namespace) -> int:
    from autograder.cli import own_files

    return own_files.run_reset(arguments.lab, arguments.folder, arguments.match, arguments.lang)


def report(arguments: argparse.Namespace) -> int:
    """Fill in the report of a student."""
    from autograder.cli import my_report

    return my_report.run(arguments.lab, arguments.folder, arguments.lang)


def _doctor(arguments: argparse.Namespace) -> int:
    from autograder.cli import student

    return student.checkup(arguments.lang)

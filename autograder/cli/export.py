"""What the kinds of ``export`` do: read a graded class, write one file, say what is open."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from autograder.authoring.stubs import stubs
from autograder.cli.say import remark
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.records import Lab, Message
from autograder.exports import feedback as feedback_archive
from autograder.exports import similarity as similarity_bundle
from autograder.exports.book import Book
from autograder.exports.fill import fill
from autograder.exports.sheet import Sheet, read
from autograder.report import class_stream

Reader = Callable[[Sheet, Lab], Book]


def grade_book(arguments: argparse.Namespace, reader: Reader) -> int:
    """Fill a grade book.

    Args:
        arguments: the command line of ``export canvas`` or ``export moodle``.
        reader: understands that system's grade book.

    Returns:
        0 when every hand-in has its row filled, 1 when a person has to look at some.

    Raises:
        ValueError: no graded class, or a grade book that cannot be filled; nothing is written.
    """
    record = class_stream.read(arguments.out)
    path = arguments.book
    book = reader(read(path), record.lab)
    filled = fill(book, record, scale=arguments.scale, trust_ids=arguments.trust_ids)
    to = arguments.to or path.with_name(f"{path.stem}-filled{path.suffix}")
    write_atomic(to, filled.data, durable=True)
    return finished(arguments.lang, to, filled.told, filled.open)


def feedback(out: Path, download: Path, to: Path, language: str) -> int:
    """Write the archive of all reports.

    Returns:
        0 when every hand-in's report is in it, 1 when some are left to a person.

    Raises:
        ValueError: no graded class, or a download that is not of it; nothing is written.
    """
    sent = feedback_archive.write(class_stream.read(out), out, download, to)
    told = Message(f"export.sent_{sent.platform}", {"count": sent.count})
    return finished(language, to, [told], sent.open)


def similarity(
    submissions: Path, lab_name: str, to: Path, pattern: str | None, *, language: str
) -> int:
    """Write the bundle for similarity tools, and say how to run these.

    Returns:
        0 when every hand-in is in it, 1 when some are left to a person.

    Raises:
        ValueError: no such lab, hand-ins that cannot be listed, or a folder that is not free.
    """
    lab = labfile.load(labfile.find_lab(lab_name))
    bundle = similarity_bundle.write(submissions, lab, stubs(lab), to, pattern)
    values = {"count": bundle.count, "to": to}
    commands = {"jplag": similarity_bundle.JPLAG, "compare50": similarity_bundle.COMPARE50}
    told = Message("export.bundle", values | commands)
    return finished(language, to, [told], bundle.open)


def finished(language: str, to: Path, told: Iterable[Message], left: Iterable[Message]) -> int:
    """Say what was done and, on standard error, what is left to a person; the exit status."""
    for message in (*told, Message("export.written", {"to": str(to)})):
        print(render(message, language))
    unfinished = list(left)
    for message in unfinished:
        remark(language, message)
    return 1 if unfinished else 0

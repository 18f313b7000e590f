"""The targets of ``export``: each reads a graded class, writes one file, says what is open."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from autograder.authoring.stubs import stubs
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.records import Lab, Message, ToldError
from autograder.exports import feedback as feedback_archive
from autograder.exports import github, gradescope
from autograder.exports import gradescope as autograder_zip
from autograder.exports import junit as junit_xml
from autograder.exports import similarity as similarity_bundle
from autograder.exports.grade_books import fill
from autograder.exports.gradescope import Settings
from autograder.exports.people import listed
from autograder.exports.sheet import Book, Sheet, read
from autograder.grading import hidden_cases, late
from autograder.intake.names import safe_id
from autograder.report import class_file
from autograder.report.terminal import remark

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
    record = class_file.read(arguments.out)
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
    sent = feedback_archive.write(class_file.read(out), out, download, to)
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


# What the kinds of ``export`` for other graders do.


def junit(out: Path, to: Path | None, language: str) -> int:
    """Write the class as JUnit XML.

    Returns:
        0.

    Raises:
        ValueError: no graded class.
    """
    record = class_file.read(out)
    to = to or out / "junit.xml"
    write_atomic(to, junit_xml.document(record, language), durable=True)
    return finished(language, to, (), ())


def gradescope_results(out: Path, to: Path | None, language: str) -> int:
    """Write ``results.json`` per student: beside the report, or as ``TO/STUDENT.json``.

    Returns:
        0.

    Raises:
        ValueError: no graded class.
    """
    record = class_file.read(out)
    for hand_in in record.hand_ins:
        name = safe_id(hand_in.student)
        path = out / name / "results.json" if to is None else to / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = gradescope.text_of(gradescope.results(record, hand_in, language))
        write_atomic(path, text)
    return finished(language, to or out, (), ())


def gradescope_zip(arguments: argparse.Namespace) -> int:
    """Write the autograder zip of a lab.

    Returns:
        0, or 1 where extensions are not given by email, so that Gradescope may know nobody by them.

    Raises:
        ValueError: no such lab, or a secret or course file that cannot be used.
    """
    lab = labfile.load(labfile.find_lab(arguments.lab))
    rules = late.read(arguments.course, lab) if arguments.course else None
    least = "weak" if arguments.allow_weak_isolation else "strong"
    settings = Settings(lab.name, arguments.lang, least, rules)
    key = hidden_cases.named(arguments.secret_file) or secrets.token_hex(32).encode()
    to = arguments.to or Path(f"gradescope-{lab.name}.zip")
    files = autograder_zip.contents(labfile.ROOT, lab, settings, key)
    to.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(to, autograder_zip.packed(files), private=True)  # it holds a secret
    told = [Message("results.gradescope_level", {"level": least})]
    told += [Message("results.gradescope_secret"), Message("results.gradescope_upload")]
    unsure = [one.student for one in (rules.extensions if rules else ()) if "@" not in one.student]
    left = [Message("results.gradescope_no_email", {"who": listed(unsure)})] if unsure else []
    return finished(arguments.lang, to, told, left)


def github_workflow(name: str, to: Path | None, language: str) -> int:
    """Write the workflow of a lab into a template repository.

    Returns:
        0.

    Raises:
        ValueError: no such lab, or no such folder.
    """
    lab = labfile.load(labfile.find_lab(name))
    root = to or Path("dist") / "qwen3-labs-student"
    if not root.is_dir():
        raise ToldError(
            f"{root}: no such folder; make release writes it, --to names another one",
            f"{root}：没有这个文件夹；make release 会生成它，也可用 --to 指定别处",
        )
    path = root / github.name_of(lab)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, github.workflow(lab, language))
    return finished(language, path, [Message("results.github_feedback")], ())


def classroom50(name: str, to: Path | None, language: str) -> int:
    """Write Classroom 50's autograder of a lab.

    Returns:
        0.

    Raises:
        ValueError: no such lab.
    """
    lab = labfile.load(labfile.find_lab(name))
    folder = to or Path(f"classroom50-{lab.name}")
    folder.mkdir(parents=True, exist_ok=True)
    for file, blob in github.classroom50(labfile.ROOT, lab, language).items():
        write_atomic(folder / file, blob)
    return finished(language, folder, [Message("results.classroom50_feedback")], ())

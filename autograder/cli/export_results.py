"""What the kinds of ``export`` for other graders do."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from autograder.cli.export import finished
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.records import Message
from autograder.course.text import ToldError
from autograder.exports import github, gradescope
from autograder.exports import gradescope_zip as autograder_zip
from autograder.exports import junit as junit_xml
from autograder.exports.gradescope_settings import Settings
from autograder.grading import late, secret
from autograder.intake.student_ids import safe_id
from autograder.report import class_stream


def junit(out: Path, to: Path | None, language: str) -> int:
    """Write the class as JUnit XML.

    Returns:
        0.

    Raises:
        ValueError: no graded class.
    """
    record = class_stream.read(out)
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
    record = class_stream.read(out)
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
        0.

    Raises:
        ValueError: no such lab, or a secret or course file that cannot be used.
    """
    lab = labfile.load(labfile.find_lab(arguments.lab))
    rules = late.read(arguments.course, lab) if arguments.course else None
    least = "weak" if arguments.allow_weak_isolation else "strong"
    settings = Settings(lab.name, arguments.lang, least, rules)
    key = secret.named(arguments.secret_file) or secrets.token_hex(32).encode()
    to = arguments.to or Path(f"gradescope-{lab.name}.zip")
    files = autograder_zip.contents(labfile.ROOT, lab, settings, key)
    to.parent.mkdir(parents=True, exist_ok=True)
    _write_private(to, autograder_zip.packed(files))
    told = [Message("results.gradescope_level", {"level": least})]
    told += [Message("results.gradescope_secret"), Message("results.gradescope_upload")]
    return finished(arguments.lang, to, told, ())


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


def _write_private(path: Path, blob: bytes) -> None:
    """Write a file whole or not at all, for its owner alone: it holds a secret."""
    part = path.with_name(f".{path.name}.tmp")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(blob)
    os.replace(part, path)

"""Puts reports on disk, each file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from autograder.course.records import ClassRecord, HandIn
from autograder.report import csv_scores, html, markdown
from autograder.report.record import text_of


def write_atomic(path: Path, text: str | Iterable[str], *, durable: bool = False) -> None:
    """Write ``text``, whole or in pieces, beside ``path`` and move it there.

    So nobody ever reads half a file; one that is ``durable`` is whole after a power cut, too.
    The text is UTF-8, and a lone surrogate, which UTF-8 cannot hold, is written as ``\\udXXX``
    (right in JSON).
    """
    # One run at a time writes there, so what a killed one has left is written over.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as stream:
            for piece in (text,) if isinstance(text, str) else text:
                stream.write(piece.encode("utf-8", "backslashreplace"))
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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


def class_files(record: ClassRecord, out: Path) -> tuple[Path, Path]:
    """Write ``OUT/class.json`` and ``OUT/scores.csv``."""
    out.mkdir(parents=True, exist_ok=True)
    paths = out / "class.json", out / "scores.csv"
    write_atomic(paths[0], text_of(record), durable=True)
    write_atomic(paths[1], csv_scores.scores(record), durable=True)
    return paths

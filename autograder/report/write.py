"""Puts reports on disk, each file whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autograder.course.records import ClassRecord, HandIn
from autograder.report import csv_scores, html, markdown
from autograder.report.record import to_json


def write_atomic(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 beside ``path`` and move it there, so nobody reads half a file.

    A lone surrogate, which UTF-8 cannot hold, is written as ``\\udXXX`` (right in JSON).
    """
    # One run at a time writes there, so what a killed one has left is written over.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
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
    text = json.dumps(to_json(record), ensure_ascii=False, indent=1, allow_nan=False)
    paths = out / "class.json", out / "scores.csv"
    write_atomic(paths[0], text + "\n")
    write_atomic(paths[1], csv_scores.scores(record))
    return paths

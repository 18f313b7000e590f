"""Writes the students' files from the solutions, and never over a student's work."""

from __future__ import annotations

import hashlib
from pathlib import Path

from autograder.authoring.markers import stub_of
from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab

_MARK = "# Generated from the course's sources"


def stubs(lab: Lab, solutions: Path = SOLUTIONS) -> dict[str, str]:
    """Text of every stub of a lab by file name, banner included."""
    hints = {exercise.id: exercise.title.en.lower() for exercise in lab.exercises}
    made = {}
    for name in lab.files:
        text = (solutions / lab.name / name).read_text(encoding="utf-8")
        body = stub_of(text, name, hints)
        made[name] = f"{_MARK} (stub {_digest(body)}): fill in the TODOs.\n{body}"
    return made


def is_untouched(text: str) -> bool:
    """Whether a file is a stub as it was generated, whatever release it came from."""
    first, _, body = text.partition("\n")
    return first == f"{_MARK} (stub {_digest(body)}): fill in the TODOs."


def write(lab: Lab, *, force: bool = False) -> list[Path]:
    """Write the stubs of a lab; returns the files that were left alone.

    A file that differs from what was generated is a student's work (or an author's slip),
    and stays unless ``force``.
    """
    kept = []
    for name, text in stubs(lab).items():
        path = lab.folder / name
        if path.exists() and not force and not is_untouched(path.read_text(encoding="utf-8")):
            kept.append(path)
            continue
        path.write_text(text, encoding="utf-8", newline="\n")
    return kept


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:12]

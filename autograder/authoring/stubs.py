"""Writes the students' files from the solutions, and never over a student's work."""

from __future__ import annotations

import hashlib
from enum import Enum
from pathlib import Path

from autograder.authoring.markers import stub_of
from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab

_MARK = "# Generated from the course's sources"


class Fate(Enum):
    """What became of a generated file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"  # it was right already
    LEFT = "left"  # somebody changed it


def stubs(lab: Lab, solutions: Path = SOLUTIONS) -> dict[str, str]:
    """Text of every stub of a lab by file name, banner included.

    Raises:
        MarkerError: markers of a solution do not pair up, or name no exercise.
        FileNotFoundError: a solution is absent.
    """
    hints = {exercise.id: exercise.title.en for exercise in lab.exercises}
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


def write(lab: Lab, solutions: Path = SOLUTIONS, *, force: bool = False) -> dict[Path, Fate]:
    """Write the stubs of a lab.

    A file that differs from what was generated is a student's work (or an author's slip),
    and stays unless ``force``.

    Returns:
        What became of each file.
    """
    fates = {}
    for name, text in stubs(lab, solutions).items():
        path = lab.folder / name
        # A student's editor may have saved another encoding: that is a change, not an error.
        now = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        if now == text:
            fates[path] = Fate.UNCHANGED
        elif now is None or force or is_untouched(now):
            path.write_text(text, encoding="utf-8", newline="\n")
            fates[path] = Fate.WRITTEN
        else:
            fates[path] = Fate.LEFT
    return fates


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:12]

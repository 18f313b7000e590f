"""Writes the students' files from the solutions, and never over a student's work."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from autograder.authoring.markers import stub_of
from autograder.course import handed_out
from autograder.course.handed_out import is_untouched as is_untouched
from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab


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
        made[name] = handed_out.with_banner(body)
    return made


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

"""Writes the students' files from the solutions, and never over a student's work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from autograder.authoring import docstrings
from autograder.course import handed_out
from autograder.course.handed_out import is_untouched
from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab

# Solution markers: ``# BEGIN SOLUTION lab2.gqa`` … ``# END SOLUTION``, and stubs made of them.

_BEGIN = re.compile(r"^(\s*)# BEGIN SOLUTION (\S+)\s*$")
_END = re.compile(r"^\s*# END SOLUTION\s*$")
_OPEN = {"en": "to be written", "zh": "待完成"}


class MarkerError(ValueError):
    """Markers do not pair up; the text names file and line."""


def blocks(text: str, name: str) -> Iterator[tuple[str, str, list[str]]]:
    """The solution blocks of a file: exercise id, indentation, lines.

    Raises:
        MarkerError: a block is not closed, or is opened inside another.
    """
    indent, exercise = "", ""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        begin = _BEGIN.match(line)
        if begin and exercise:
            raise MarkerError(
                f"{name}:{number}: BEGIN SOLUTION inside {exercise}, which has no END"
            )
        if begin:
            indent, exercise, lines = begin[1], begin[2], []
        elif _END.match(line):
            if not exercise:
                raise MarkerError(f"{name}:{number}: END SOLUTION without a BEGIN")
            yield exercise, indent, lines
            exercise = ""
        elif exercise:
            lines.append(line)
    if exercise:
        raise MarkerError(f"{name}: BEGIN SOLUTION {exercise} is never closed")


def solution_lines(text: str, name: str) -> set[str]:
    """Lines between markers, long enough to give something away, without indentation.

    A line of code with a comment behind it counts without the comment, too.
    """
    lines = {line.strip() for _, _, lines in blocks(text, name) for line in lines}
    lines |= {line.split("  # ")[0].rstrip() for line in lines}
    return {line for line in lines if len(line) > 20}


def stub_of(text: str, name: str, hints: dict[str, str], language: str = "en") -> str:
    """The student's file: every block replaced by a TODO that raises.

    Args:
        text: the solution.
        name: its file name, for errors.
        hints: the words after the TODO, by exercise id.
        language: of what the TODO raises.

    Raises:
        MarkerError: markers do not pair up, or an exercise has no words.
    """
    for _ in blocks(text, name):
        pass  # raises where markers do not pair up
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        begin = _BEGIN.match(line)
        if begin:
            inside = True
            if begin[2] not in hints:
                known = ", ".join(hints)
                raise MarkerError(f"{name}: {begin[2]} is no exercise of lab.toml ({known})")
            out.append(f"{begin[1]}# TODO {begin[2]}: {hints[begin[2]]}")
            todo = f"TODO {begin[2]}: {_OPEN[language]}"
            out.append(f'{begin[1]}raise NotImplementedError("{todo}")')
        elif _END.match(line):
            inside = False
        elif not inside:
            out.append(line)
    return "\n".join(out) + "\n"


class Fate(Enum):
    """The outcome of generating one file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"  # it was right already
    LEFT = "left"  # somebody changed it


def stubs(lab: Lab, solutions: Path = SOLUTIONS, language: str = "en") -> dict[str, str]:
    """Text of every stub of a lab by file name, banner included.

    Raises:
        MarkerError: markers of a solution do not pair up, or name no exercise.
        FileNotFoundError: a solution is absent.
        ValueError: the Chinese docstrings cannot be read.
    """
    hints = {exercise.id: exercise.title.in_(language) for exercise in lab.exercises}
    catalogue = docstrings.load(solutions / lab.name) if language == "zh" else {}
    made = {}
    for name in lab.files:
        text = (solutions / lab.name / name).read_text(encoding="utf-8")
        body = stub_of(text, name, hints, language)
        if name in catalogue:
            body = docstrings.in_chinese(body, catalogue[name])
        made[name] = handed_out.with_banner(body, language)
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

"""Where a worker was when its time was over: what ``faulthandler`` wrote, as frames of a student.

A worker writes it among its prints when its judge asks; student code can do so as well, and then
says no more than that it stood at a line of its own.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from autograder.course.records import Frame
from autograder.worker.loader import lines_of

HEAD = b"Stack (most recent call first):\n"
_LINE = re.compile(r'  File "(.{1,500})", line (\d{1,7}) in (.{1,200})')
MOST = 8
MOST_LINES = 200  # faulthandler writes a hundred
# Characters that are parsed outside of a worker, where nothing ends what takes long: some Pythons
# take minutes for a long formatted string. Names are normalised, in time that is quadratic in how
# many accents stand on one letter.
MAX_PARSED = 50_000
MAX_ACCENTS = 30


def is_parsed(text: str) -> bool:
    """Say whether a source is short and simple enough to be parsed beside a worker."""
    if len(text) > MAX_PARSED:
        return False
    accents = 0
    for letter in "" if text.isascii() else text:
        accents = accents + 1 if unicodedata.combining(letter) else 0
        if accents > MAX_ACCENTS:
            return False
    return True


@lru_cache(maxsize=8)  # the files of one hand-in, which several readers ask for
def parsed(text: str) -> ast.Module | None:
    """The syntax of a source; None where it has none, or where it is not to be had here.

    How deep a source may be nested hangs on how deep the calls are from which it is parsed: what
    is too deep for a judge may well run in a worker.
    """
    if not is_parsed(text):
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def frames(told: str, sources: Mapping[str, str], paths: Mapping[str, str]) -> tuple[Frame, ...]:
    """The student's frames of a stack, the last call at the bottom.

    The innermost stands at the loop that it is in, if it is in one: where in a loop the clock
    strikes is chance.

    Args:
        told: lines of ``faulthandler``, the last call first.
        sources: text by file name.
        paths: by file name the path that student code is run under; the name itself by default.
    """
    names = {_escaped(paths.get(name, name)): name for name in sources}
    lines = {name: lines_of(text) for name, text in sources.items()}
    found: list[Frame] = []
    for match in map(_LINE.fullmatch, told.splitlines()[:MOST_LINES]):
        name, number = (names.get(match[1], ""), int(match[2])) if match else ("", 0)
        if match is None or not name or not 0 < number <= len(lines[name]):
            continue
        if not found:
            number = _loop_of(sources[name], number)
        line = lines[name][number - 1].strip()[:200]
        found.append(Frame(paths.get(name, name), number, match[3][:80], line))
        if len(found) == MOST:
            break
    return tuple(reversed(found))


def _escaped(path: str) -> str:
    return path.encode("ascii", "backslashreplace").decode()


def _loop_of(text: str, line: int) -> int:
    """The line where the innermost loop around a line begins; the line itself without one."""
    tree = parsed(text)
    if tree is None:
        return line
    loops = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.While)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(loops, default=line)

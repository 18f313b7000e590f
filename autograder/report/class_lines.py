"""Whose class a ``class.json`` is, told without holding the whole class in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_OPENS, _CLOSES = '"hand_ins": [', "]"


def whose(path: Path) -> tuple[str, set[str]]:
    """The lab's name, and the ids of the students who stand in the file.

    Raises:
        OSError, ValueError, LookupError, TypeError: it cannot be read, or is not one of ours.
    """
    try:
        return _by_lines(path)
    except ValueError:  # not in lines as we write it: an editor, or an older release, did that
        found = json.loads(path.read_text(encoding="utf-8"))
        return _lab(found), {_student(one) for one in found["hand_ins"]}


def _by_lines(path: Path) -> tuple[str, set[str]]:
    """Raises ValueError where a hand-in is not on a line of its own."""
    with path.open(encoding="utf-8") as file:
        head, students = "", set()
        for line in file:
            head += line
            if line.strip() == _OPENS:
                break
        for line in file:
            if line.strip() == _CLOSES:
                break
            students.add(_student(json.loads(line.rstrip().removesuffix(","))))
        return _lab(json.loads(f"{head}]{file.read()}")), students


def _lab(found: Any) -> str:
    return str(found["lab"]["name"])


def _student(hand_in: Any) -> str:
    return str(hand_in["student"])

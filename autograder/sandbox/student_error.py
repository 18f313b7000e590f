"""What student code raised, as checks see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.course.records import Frame

MAX_TEXT = 400
MAX_LINE = 1 << 20  # a file of the largest size that is taken has no more lines


class StudentError(Exception):
    """Student code raised: where (``stage``), what (``type``, ``text``), the student's frames.

    ``todo`` is the id of a stub's TODO that was reached, or None. When weights do not load,
    ``lacking`` and ``extra`` name parameters, ``shapes`` name, own shape and shape wanted.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.stage = str(error.get("stage"))[:20]
        self.type = str(error.get("type"))[:80]
        self.text = str(error.get("text"))[:MAX_TEXT]
        self.todo = str(error["todo"])[:60] if error.get("todo") else None
        self.frames = tuple(
            Frame(str(file)[:300], _line(line), str(function)[:80], str(text)[:200])
            for file, line, function, text in list(error.get("frames") or ())[:8]
        )
        self.lacking = _names(error.get("lacking"))
        self.extra = _names(error.get("extra"))
        self.shapes = tuple(
            (str(name)[:80], str(got)[:40], str(want)[:40])
            for name, got, want in list(error.get("shapes") or ())[:6]
        )
        super().__init__(f"{self.type}: {self.text}")


def _names(raw: Any) -> tuple[str, ...]:
    return tuple(str(name)[:80] for name in list(raw or ())[:6])


def _line(raw: Any) -> int:
    return max(0, min(int(raw), MAX_LINE))

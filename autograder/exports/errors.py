"""What ends an export, as a sentence in the reader's language."""

from __future__ import annotations

from pathlib import Path

from autograder.course.messages import both
from autograder.course.records import Message
from autograder.report import escape


class ExportError(ValueError):
    """A file that cannot be used; ``reason`` names it, what was expected, and how to mend it."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        harmless = {name: _harmless(value) for name, value in values.items()}
        self.reason = Message(f"export.{key}", {"path": str(path), **harmless})
        super().__init__(both(self.reason))


def _harmless(value: object) -> object:
    """A wrong file may hold anything, a terminal's control sequences, too."""
    return escape.line(value) if isinstance(value, str) else value

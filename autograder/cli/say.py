"""What a command says to whoever runs it, on standard error and in their language."""

from __future__ import annotations

import sys

from autograder.course.messages import render
from autograder.course.records import Message


class Say:
    """Prints messages of one area of the catalogue."""

    def __init__(self, language: str, area: str = "grade") -> None:
        self._language = language
        self._area = area

    def __call__(self, key: str, **values: object) -> None:
        """Print the message at once; ``key`` without its area."""
        text = render(Message(f"{self._area}.{key}", values), self._language)
        print(text, file=sys.stderr, flush=True)

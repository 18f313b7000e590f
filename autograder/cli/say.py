"""What grading says to whoever runs it, on standard error and in their language."""

from __future__ import annotations

import contextlib
import sys

from autograder.course.messages import render
from autograder.course.records import Message


def say(language: str, key: str, **values: object) -> None:
    """Print the message ``grade.KEY`` at once."""
    _print(render(Message(f"grade.{key}", values), language))


def remark(language: str, message: Message) -> None:
    """Print a message of another area at once."""
    _print(render(message, language))


def _print(text: str) -> None:
    # A reader who has gone, or a full disk behind a redirection, is no reason to stop grading.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)

"""What grading says to whoever runs it, on standard error and in their language."""

from __future__ import annotations

import sys

from autograder.course.messages import render
from autograder.course.records import Message


def say(language: str, key: str, **values: object) -> None:
    """Print the message ``grade.KEY`` at once."""
    print(render(Message(f"grade.{key}", values), language), file=sys.stderr, flush=True)


def remark(language: str, message: Message) -> None:
    """Print a message of another area at once."""
    print(render(message, language), file=sys.stderr, flush=True)

"""Output on a terminal: marks and colours that it can show, lines that fit."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys

from autograder.course.messages import render
from autograder.course.records import Message
from autograder.report.escape import plain

_FANCY = {"passed": "✓", "failed": "✗", "not_started": "·", "other": "–"}
_PLAIN = {"passed": "ok", "failed": "XX", "not_started": "..", "other": "--"}
_COLOURS = {"passed": "32", "failed": "31", "not_started": "2", "other": "33"}


def glyphs() -> dict[str, str]:
    """By kind; plain letters where the terminal's encoding (GBK, cp1252) lacks one of them."""
    return _FANCY if _encodes("".join(_FANCY.values())) else _PLAIN


def coloured(kind: str) -> str:
    """The mark of a kind of row, between colours where the terminal shows colours."""
    glyph = glyphs()[kind]
    return f"\x1b[{_COLOURS[kind]}m{glyph}\x1b[0m" if shows_colours() else glyph


def shows_colours() -> bool:
    """Say whether this is a terminal that takes ANSI sequences, and nobody has set ``NO_COLOR``."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    # An old Windows console prints the sequences as they are; these variables tell newer ones.
    new = sys.platform != "win32" or bool({"WT_SESSION", "ANSICON", "TERM"} & os.environ.keys())
    return new and sys.stdout.isatty()


def columns() -> int:
    """Width of the terminal, as far as it is used."""
    return max(68, min(120, shutil.get_terminal_size().columns))


def readable(language: str) -> str:
    """``language``, or English where the terminal would show Chinese as question marks."""
    return language if language == "en" or _encodes("中文") else "en"


def _encodes(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# What grading says to whoever runs it, on standard error and in their language.


def say(language: str, key: str, **values: object) -> None:
    """Print the message ``grade.KEY`` at once."""
    _print(render(Message(f"grade.{key}", values), language))


def remark(language: str, message: Message) -> None:
    """Print a message of another area at once; what names in it hold moves no cursor."""
    _print(plain(render(message, language)))


def _print(text: str) -> None:
    # A reader who has gone, or a full disk behind a redirection, is no reason to stop grading.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)

"""Sentences in which what a student wrote can be covered: for a page shown to a whole room."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from autograder.course.records import LANGUAGES, Message, Text
from autograder.report import escape
from autograder.report.view import Quote, sentence

if TYPE_CHECKING:
    from markupsafe import Markup

LENGTH = 220  # signs of one sentence
_OPEN, _CLOSE = "\x01", "\x02"  # around a student's text: `escape.line` leaves none in it
_PIECE = re.compile(r"[\d.][\d.e+-]*\Z")  # a number's beginning is another number
_NUMBERS = re.compile(r"[\d\s()\[\],.:+\-einfa]*")  # shapes, places, sizes, nan and inf


def private(message: Message, language: str, known: Collection[str]) -> str:
    """The sentence with everything that may be a student's words between marks.

    Args:
        message: to be rendered.
        language: ``en`` or ``zh``.
        known: texts of the lab (file names, say) that tell nothing about anybody.
    """
    return _cut(sentence(message, language, _cover(message, known)))


def _cover(message: Message, known: Collection[str]) -> Quote:
    ours = {str(text) for value in message.values.values() for text in _words(value)}

    def quote(text: str) -> str:
        shown = escape.line(text)
        harmless = text in ours or text in known or _NUMBERS.fullmatch(shown)
        return shown if harmless else covered(shown)

    return quote


def _words(value: object) -> Collection[object]:
    """Texts of ours come in both languages."""
    if isinstance(value, Text):
        return (value.en, value.zh)
    if isinstance(value, Mapping) and set(value) <= set(LANGUAGES):
        return value.values()
    return ()


def _cut(text: str) -> str:
    if len(text) <= LENGTH:
        return text
    text = _PIECE.sub("", text[: LENGTH - 1]).rstrip(_OPEN)
    return text + (_CLOSE if text.rfind(_OPEN) > text.rfind(_CLOSE) else "") + "…"


def covered(text: str) -> str:
    """``text``, on one line, between the marks."""
    return f"{_OPEN}{escape.line(text)}{_CLOSE}"


def marked_up(text: str) -> Markup:
    """Escaped; what stands between marks becomes ``<i>``, and ``…`` in a ``<b>`` goes before it.

    The style sheet shows one of both.
    """
    from markupsafe import Markup
    from markupsafe import escape as escaped

    whole = str(escaped(text))
    return Markup(whole.replace(_OPEN, "<b>…</b><i>").replace(_CLOSE, "</i>"))

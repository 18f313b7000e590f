"""Words in both languages: texts as they are, and messages that are rendered later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Text:
    """One text in both languages."""

    en: str
    zh: str

    def in_(self, language: str) -> str:
        """The text in ``language`` (``en`` or ``zh``)."""
        return self.zh if language == "zh" else self.en


class ToldError(ValueError):
    """What ends a command, as a sentence for whoever ran it; ``said`` is it in both languages.

    As ``str`` it is English. What only authors and instructors meet may be English alone.
    """

    def __init__(self, en: str, zh: str = "") -> None:
        super().__init__(en)
        self.said = Text(en, zh or en)


@dataclass(frozen=True)
class Message:
    """A sentence as a key and its values, so that it renders in either language later."""

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)

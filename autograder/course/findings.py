"""What diagnosis says: the words for a known mistake, and what was found in a hand-in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autograder.course.text import Message, Text


class Certainty(StrEnum):
    """How sure diagnosis is of a mistake."""

    NAMED = "named"  # the answers are those of this mistake, and of no other
    LOOKS_LIKE = "looks_like"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Misconception:
    """A known mistake in words: what it is, what one sees of it, a hint, what to read again.

    ``id`` is that of the class: mistakes with equal outputs share one. ``section`` is the title
    of a section of the lab's handout, ``anchor`` its place there.
    """

    id: str
    group: str
    name: Text
    sees: Text
    hint: Text
    section: Text
    anchor: str = ""
    source: str = ""


@dataclass(frozen=True)
class Finding:
    """What diagnosis makes of exercises that failed.

    ``misconceptions`` act together; with ``either`` it is one of them. ``checks`` are those that
    revealed it; ``known`` says what else is known, for instance how far the answers are right.
    """

    exercises: tuple[str, ...]
    certainty: Certainty
    misconceptions: tuple[Misconception, ...] = ()
    either: bool = False
    checks: tuple[str, ...] = ()
    known: tuple[Message, ...] = ()

"""Lateness and its price: pure arithmetic on times with offsets.

A hand-in is late when it came after its due time and the grace. Days late are started days of 24
hours from there on, so neither midnight nor a change of the clocks matters. What they cost is a
share of the points earned; ``score.late_penalty_of`` turns it into whole points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Extension:
    """More time for one student (an id or an email): due no earlier than ``due`` (ISO 8601).

    ``handed_in`` is when the hand-in came, where a person knows what the course system does not
    tell; it counts only there.
    """

    student: str
    due: str
    reason: str
    handed_in: str = ""


@dataclass(frozen=True)
class LateRules:
    """The rules of the course file for one lab.

    ``due`` is ISO 8601 with an offset; ``max_days`` None means that no day is the last one;
    ``offset`` (``+08:00``) is that of times of handing in that name none, empty where the course
    does not say.
    """

    due: str
    grace_minutes: int = 0
    percent_per_day: int = 0
    max_days: int | None = None
    offset: str = ""
    extensions: tuple[Extension, ...] = ()


@dataclass(frozen=True)
class Lateness:
    """The lateness of one hand-in.

    ``due`` is its own due time, extensions applied (ISO 8601). ``days`` counts started days, 0 in
    time, None where the time of handing in is not known: then it costs nothing, and ``why`` is
    ``no_time`` or ``no_offset``. ``percent`` (0 to 100) of the points earned do not count.
    ``closed``: it came after the last day on which late hand-ins are taken. ``told_by_hand`` is
    the time of handing in, where a person has entered it.
    """

    due: str
    extended: bool = False
    days: int | None = 0
    percent: int = 0
    closed: bool = False
    why: str = ""
    told_by_hand: str = ""


def lateness(rules: LateRules, submitted_at: str, extensions: Sequence[Extension]) -> Lateness:
    """Return how late a hand-in is that came at ``submitted_at`` (ISO 8601; empty: not known).

    Args:
        rules: of the lab.
        submitted_at: as intake tells it.
        extensions: those of the hand-in's students; the latest due time and the latest time of
            handing in count.

    Raises:
        ValueError: a time of ``rules`` or ``extensions`` is not ISO 8601 with an offset.
    """
    due = _aware(rules.due)
    by_hand = max((e.handed_in for e in extensions if e.handed_in), key=_aware, default="")
    later = [one for one in map(_aware, (e.due for e in extensions)) if one > due]
    own = max([due, *later])
    told = Lateness(own.isoformat(), extended=bool(later))
    at, why = _moment(submitted_at, rules.offset)
    if at is None and by_hand:
        at, why = _moment(by_hand, rules.offset)
        told = replace(told, told_by_hand=by_hand)
    if at is None:
        return replace(told, days=None, why=why, told_by_hand="")
    over = at - own - timedelta(minutes=rules.grace_minutes)
    days = max(0, -(-over // DAY))
    if days and rules.max_days is not None and days > rules.max_days:
        return replace(told, days=days, percent=100, closed=True)
    return replace(told, days=days, percent=min(100, days * rules.percent_per_day))


def _moment(text: str, offset: str) -> tuple[datetime | None, str]:
    """A time with its offset, or None and why it is not known."""
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None and offset:
            at = datetime.fromisoformat(f"{at.isoformat()}{offset}")
    except ValueError:
        return None, "no_time"
    return (at, "") if at.utcoffset() is not None else (None, "no_offset")


def _aware(text: str) -> datetime:
    """A time with its offset.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    if found.utcoffset() is None:
        raise ValueError(f"{text}: a due time needs an offset from UTC, as +08:00 or Z")
    return found

"""The nouns of trying: a trial, the ways it is tried in, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from autograder.course.records import Message

SCORE, FAIR = "score", "fair"  # promises beside the guarantees of sandbox/jail.py


class State(StrEnum):
    """What became of a trial, or of a promise: a closed list."""

    HELD = "held"
    BROKE = "broke"
    NOT_TRIED = "not_tried"


class End(StrEnum):
    """How one way of an attack ended."""

    WORKED = "worked"
    STOPPED = "stopped"
    ABSENT = "absent"  # this system has nothing to attack there
    FAILED = "failed"  # for a reason that proves nothing


@dataclass(frozen=True)
class Way:
    """One way in which a trial was tried; ``evidence`` is an errno, or what was found."""

    name: str
    end: End
    evidence: str = ""


@dataclass(frozen=True)
class Trial:
    """An attack on one promise: a guarantee of the jail, ``score`` or ``fair``.

    ``code``: the student's file, or the ways that stand behind the kit (``kit``). ``alone``: it
    may end its worker, so it has a hand-in of its own. ``ends``: our deadline stops it.
    """

    name: str
    promise: str
    title: Message
    code: str
    kit: bool = True
    alone: bool = False
    ends: bool = False


@dataclass(frozen=True)
class Finding:
    """What a trial showed; ``reason`` says why when it was not tried."""

    trial: str
    promise: str
    title: Message
    state: State
    ways: tuple[Way, ...] = ()
    reason: str = ""


def judged(finding: Finding, ways: Iterable[Way]) -> Finding:
    """The finding with its state decided by the ways: one that worked breaks it.

    It held when every way was stopped, but for those that this system does not have.
    """
    ways = tuple(ways)
    ends = {way.end for way in ways}
    failed = [way for way in ways if way.end is End.FAILED]
    state, reason = State.HELD, ""
    if End.WORKED in ends:
        state = State.BROKE
    elif failed:
        state, reason = State.NOT_TRIED, f"{failed[0].name}: {failed[0].evidence}"
    elif End.STOPPED not in ends:
        state, reason = State.NOT_TRIED, "there is nothing of the kind on this system"
    return replace(finding, state=state, ways=ways, reason=reason)


def corrected(finding: Finding, seen: Mapping[str, str]) -> Finding:
    """The finding after a look from outside: ``seen`` names ways whose effect is there."""
    if not seen:
        return finding
    ways = {way.name: way for way in finding.ways}
    ways |= {name: Way(name, End.WORKED, evidence) for name, evidence in seen.items()}
    return judged(finding, ways.values())

"""Claims that a student got wrong, and the day on which each comes back: spaced repetition.

A card is a spot-the-error question, or a mistake that was named in the student's code. It comes
back after 1 day, and while it is known, 3, 7 and 21 days later; whoever misses it begins anew.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta

from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import Misconception
from autograder.course.spot import Question

DAYS = (1, 3, 7, 21)  # from one time to the next
STATE = labfile.ROOT / ".spot.json"  # not tracked, and free to be deleted


@dataclass(frozen=True)
class Card:
    """How far a student is with a question of a lab, or with a mistake that has none.

    Attributes:
        tries: how many it took so far, where ``spot`` asked.
        answered: whether it was answered there.
        due: the ISO date from which it is asked again; empty if it is not to come back.
        step: how often it was known since it was missed.
        seen: how often it came back: numbers and order are drawn anew.
        mistake: its words, unless this is a question.
    """

    lab: str
    id: str
    tries: int = 0
    answered: bool = False
    due: str = ""
    step: int = 0
    seen: int = 0
    mistake: Misconception | None = None

    def missed(self, today: date) -> Card:
        """It comes back tomorrow."""
        return replace(self, due=_later(today, DAYS[0]), step=0)

    def came_back(self, today: date, *, known: bool) -> Card:
        """It was asked again."""
        card = replace(self, seen=self.seen + 1)
        if not known:
            return card.missed(today)
        step = self.step + 1
        return replace(card, step=step, due=_later(today, DAYS[step]) if step < len(DAYS) else "")


class Cards:
    """The cards of a student, kept in one file."""

    def __init__(self) -> None:
        self._cards = {(card.lab, card.id): card for card in _read()}

    def of(self, lab: str, name: str) -> Card:
        """The card of a question; a new one if there is none."""
        return self._cards.get((lab, name), Card(lab, name))

    def put(self, card: Card) -> None:
        """Keep a card; one that says nothing is dropped."""
        if card.due or card.tries:
            self._cards[card.lab, card.id] = card
        else:
            self._cards.pop((card.lab, card.id), None)

    def due(self) -> list[Card]:
        """Those that come back, the longest overdue first."""
        return sorted((c for c in self._cards.values() if c.due), key=lambda card: card.due)

    def named(
        self, lab: str, found: Iterable[Misconception], questions: Iterable[Question], today: date
    ) -> None:
        """Mistakes were named in a student's code: their questions, or they themselves, come."""
        questions = tuple(questions)
        for one in found:
            about = [self.of(lab, q.id) for q in questions if one.id in q.about]
            for card in about or [replace(self.of(lab, one.id), mistake=one)]:
                self.put(card if card.due else card.missed(today))

    def save(self) -> None:
        """Write them down; where that cannot be done, all begin anew next time."""
        with contextlib.suppress(OSError):
            if self._cards:
                write_atomic(STATE, json.dumps(to_plain(list(self._cards.values()))) + "\n")
            else:
                STATE.unlink(missing_ok=True)


def _read() -> list[Card]:
    """The cards that are kept; none if the file is absent or damaged."""
    try:
        return from_plain(list[Card], json.loads(STATE.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return []


def _later(today: date, days: int) -> str:
    return (today + timedelta(days)).isoformat()

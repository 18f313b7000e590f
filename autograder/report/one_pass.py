"""One look through a class, however many files and summaries are made of it.

Reading a record costs more than summing it up, and thousands of them do not fit into memory. So
whoever tells something of a whole class is a :class:`Summary`: it takes the hand-ins one by one,
keeps what it needs of each (a few words, never the record), and tells at the end.
``write.class_files`` makes ``class.json`` and ``scores.csv`` in such a look, and lets any number
of others share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from autograder.course.records import HandIn


class Summary(Protocol):
    """Something that is told of all hand-ins; what it tells, and how, is its own."""

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in, in the order of ``class.json``: sorted by student id."""


def look(hand_ins: Iterable[HandIn], summaries: Sequence[Summary]) -> None:
    """Show every hand-in to every summary; each is read once and then let go."""
    for hand_in in hand_ins:
        for summary in summaries:
            summary.take(hand_in)

"""Whose extension is whose, and how late a hand-in is by the rules of its course."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from autograder.course.late import Extension, LateRules, lateness
from autograder.course.records import HandIn, Student
from autograder.intake.roster_csv import folded


def keys_of(students: Iterable[Student]) -> set[str]:
    """What a line's student is compared with: ids and emails, without case, width and spaces."""
    return {folded(text) for one in students for text in (one.id, one.email) if text}


class Clock:
    """Tells how late hand-ins are by the rules of a lab.

    Args:
        rules: None where the course has none: then a record loses what it says of lateness.
    """

    def __init__(self, rules: LateRules | None) -> None:
        self._rules = rules
        self._own: dict[str, list[Extension]] = {}
        for one in rules.extensions if rules else ():
            self._own.setdefault(folded(one.student), []).append(one)

    def timed(self, hand_in: HandIn) -> HandIn:
        """The record with how late it is; for a group, the extensions of all its members."""
        if self._rules is None:
            return replace(hand_in, lateness=None)
        keys = keys_of((*hand_in.origin.students, Student(hand_in.student)))
        own = [one for key in sorted(keys) for one in self._own.get(key, ())]
        return replace(hand_in, lateness=lateness(self._rules, hand_in.origin.submitted_at, own))


class Strangers:
    """Students with an extension who neither handed in nor are missing: a slip of the pen.

    Args:
        extensions: of one lab.
        missing: who is on the roster and handed in nothing.
    """

    def __init__(self, extensions: Iterable[Extension], missing: Iterable[Student]) -> None:
        self._left = {folded(one.student): one.student for one in extensions}
        self._strike(missing)

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in: whoever made it is no stranger."""
        self._strike((*hand_in.origin.students, Student(hand_in.student)))

    def left(self) -> list[str]:
        """Those who are left, as the file of extensions calls them."""
        return sorted(self._left.values())

    def _strike(self, students: Iterable[Student]) -> None:
        for key in keys_of(students) if self._left else ():
            self._left.pop(key, None)

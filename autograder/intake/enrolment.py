"""A roster as something to look people up in: by id, else by email, else by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from autograder.course.records import HandIn, Student
from autograder.intake.roster import emails_of, ids_of, names_of

_WAYS: tuple[Callable[[Student], set[str]], ...] = (ids_of, emails_of, names_of)


class Enrolment:
    """Who is enrolled.

    Args:
        roster: from :func:`autograder.intake.roster.read`; empty where there is none.
    """

    def __init__(self, roster: Iterable[Student]) -> None:
        # By each way, a key's student; None for a key that several share, and that names nobody.
        self._known: list[dict[str, Student | None]] = [{} for _ in _WAYS]
        self.listed = tuple(roster)
        for student in self.listed:
            for known, keys in zip(self._known, _WAYS, strict=True):
                for key in keys(student):
                    known[key] = None if known.get(key, student) != student else student

    def of(self, student: Student) -> Student | None:
        """The roster's line for somebody; None if there is none, or more than one."""
        for known, keys in zip(self._known, _WAYS, strict=True):
            found = {one for key in keys(student) if (one := known.get(key)) is not None}
            if len(found) == 1:
                return found.pop()
        return None

    def completed(self, hand_in: HandIn) -> HandIn:
        """The hand-in with the ids, names and emails that the roster has for its students."""
        students = tuple(self._completed(one, hand_in) for one in hand_in.origin.students)
        return replace(hand_in, origin=replace(hand_in.origin, students=students))

    def knows(self, hand_in: HandIn) -> bool:
        """Whether any of its students is on the roster."""
        told = hand_in.origin.students or (Student(hand_in.student),)
        return any(self.of(one) is not None for one in told)

    def _completed(self, student: Student, hand_in: HandIn) -> Student:
        line = self.of(student if student.id else replace(student, id=hand_in.student))
        if line is None:
            return student
        name, email = line.name or student.name, line.email or student.email
        return Student(line.id or student.id, name, email)

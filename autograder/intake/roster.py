"""Who should have handed in, and who did not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from autograder.course.records import Student
from autograder.intake.attempts import Handed
from autograder.intake.roster_csv import RosterError, folded, read

__all__ = ["RosterError", "missing", "read"]


def missing(roster: Iterable[Student], handed_in: Iterable[Handed]) -> tuple[Student, ...]:
    """Who of the roster handed in nothing, in its order.

    A student is looked for by id, else by email, else by name, without regard to case, width,
    spaces and signs, family name first or last. Takes entries, submissions or graded hand-ins;
    their ids count as ids and names, too. Of namesakes who can only be told by name, all are
    missing unless as many handed in.
    """
    present = _present(handed_in)
    left = list(roster)
    for keys in (ids_of, emails_of):
        known = {key for one in present for key in keys(one)}
        found = {key for one in left for key in keys(one)} & known
        left = [one for one in left if not found.intersection(keys(one))]
        # Who is found by one key must not be found again, as a namesake, by the next.
        present = [one for one in present if not found.intersection(keys(one))]
    wanted = Counter(key for one in left for key in names_of(one))
    there = Counter(key for one in present for key in names_of(one))
    return tuple(
        one for one in left if not any(there[key] >= wanted[key] > 0 for key in names_of(one))
    )


def _present(handed_in: Iterable[Handed]) -> list[Student]:
    found = []
    for one in handed_in:
        if len(one.origin.students) == 1:
            student = one.origin.students[0]
            found.append(Student(student.id or one.student, student.name, student.email))
        else:
            found += one.origin.students or [Student(one.student)]
    return found


def ids_of(student: Student) -> set[str]:
    """What an id is compared by."""
    return {folded(student.id)} - {""}


def emails_of(student: Student) -> set[str]:
    """Addresses; an id may be one."""
    return {folded(one) for one in (student.email, student.id) if "@" in one}


def names_of(student: Student) -> set[str]:
    """The name in the orders in which it may be written; an id that is a name counts as one."""
    found: set[str] = set()
    for name in (student.name, student.id):
        last, comma, first = name.partition(",")
        words = [_letters(word) for word in re.split(r"[\s_]+", name.replace(",", " "))]
        words = [word for word in words if word]
        found.add("".join(words))
        found.add("".join(words[-1:] + words[:-1]))
        found.add("".join(words[1:] + words[:1]))
        if comma:
            found.add(_letters(first) + _letters(last))
    return {one for one in found if one and not one.isdecimal()}


def _letters(text: str) -> str:
    """What Canvas leaves of a name in a download: lower case, only word characters."""
    return re.sub(r"[\W_]", "", folded(text))

"""Matches hand-ins with the rows of a grade book.

A name in a course system's own download holds that system's number of the student, and then only
that number counts: two students may share a name. Else ids are looked for, then addresses, then
names, and what fits more than one row fits none: nobody may get the points of somebody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autograder.course.records import HandIn, Message, Student
from autograder.intake import names
from autograder.intake.roster import HIDDEN, agree, emails_of, folded, ids_of, names_of
from autograder.report import escape

# What the name of a hand-in in its course system's download tells, long after it was graded.
#
# ``class.json`` keeps the name (``origin.name``), though a roster may have put other ids in place
# of the system's own.


@dataclass(frozen=True)
class DownloadIdentity:
    """The system (``canvas``, ``moodle``, …), its number of the student, and the name there.

    Number and name are empty where the system does not tell them.
    """

    platform: str
    number: str
    name: str


def told(hand_in: HandIn) -> DownloadIdentity | None:
    """Return what the name tells, or None."""
    found = names.parse(hand_in.origin.name)
    if found is None:
        return None
    platform, student = found.group[0], found.student
    number = "" if student.id == student.name else folded(student.id)
    return DownloadIdentity(platform, number, _shown(student.name))


def _shown(name: str) -> str:
    return "" if HIDDEN.fullmatch(name) else name


@dataclass(frozen=True)
class Person:
    """Somebody who may have a row: ``ids`` in the book's own order, the platform's first."""

    ids: tuple[str, ...]
    name: str
    emails: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matching:
    """The hand-in of each place among the people, and what was left open, as messages."""

    of: Mapping[int, HandIn]
    remarks: tuple[Message, ...]


def matched(
    platform: str, people: Sequence[Person], hand_ins: Iterable[HandIn], *, trust_ids: bool = False
) -> Matching:
    """Find the place of every hand-in among ``people``.

    Args:
        platform: of the book, as :mod:`told` calls it; the first of a person's ids is its number.
        trust_ids: an id that fits is enough, though the names differ.
    """
    index = _Index(people)
    claimed: dict[int, list[HandIn]] = {}
    none, several, other = [], [], []
    for hand_in in hand_ins:
        for asked in _asked(platform, hand_in):
            strangers: list[int] = []  # whose id fits, though not their name
            for places in index.ways(asked):
                fitting = [p for p in places if trust_ids or _agree(asked, people[p])]
                if len(fitting) == 1:
                    claimed.setdefault(fitting[0], []).append(hand_in)
                    break
                if fitting:
                    several.append(hand_in.student)
                    break
                strangers += places
            else:
                told_apart = [f"{hand_in.student} ≠ {people[place].name}" for place in strangers]
                other += told_apart[:1]
                none += [] if told_apart else [hand_in.student]
    twice = [place for place, found in claimed.items() if len(found) > 1]
    remarks = [
        _open("no_row", none),
        _open("several_rows", several),
        _open("other_name", other),
        _open("same_row", [people[place].name or people[place].ids[0] for place in sorted(twice)]),
    ]
    found = {place: one[0] for place, one in claimed.items() if len(one) == 1}
    return Matching(found, tuple(remark for remark in remarks if remark is not None))


def listed(who: Iterable[str]) -> str:
    """Students in one line; names may hold commas."""
    return "; ".join(map(escape.line, who))


@dataclass(frozen=True)
class _StudentKeys:
    """One student of a hand-in: what a person is looked for by."""

    number: str  # the platform's own, or empty
    student: Student
    names: tuple[str, ...]


def _asked(platform: str, hand_in: HandIn) -> list[_StudentKeys]:
    """The students of a hand-in; its name in the download tells of a single one."""
    students = hand_in.origin.students or (Student(hand_in.student),)
    named = told(hand_in) if len(students) == 1 else None
    number = named.number if named and named.platform == platform else ""
    return [_StudentKeys(number, one, (one.name, named.name if named else "")) for one in students]


class _Index:
    """The people by whatever they may be looked for."""

    def __init__(self, people: Sequence[Person]) -> None:
        self._numbers = _by(people, lambda one: ids_of(Student(one.ids[0])))
        self._ids = _by(people, lambda one: {key for i in one.ids for key in ids_of(Student(i))})
        self._emails = _by(people, _emails)
        self._names = _by(people, lambda one: names_of(Student("", one.name)))

    def ways(self, asked: _StudentKeys) -> Iterator[list[int]]:
        """Their places, way by way."""
        if asked.number:
            yield self._numbers.get(asked.number, [])
            return
        student = asked.student
        yield _found(self._ids, ids_of(student))
        yield _found(self._emails, emails_of(student))
        yield _found(self._names, names_of(student) | _keys(asked.names))


def _by(people: Sequence[Person], keys: Callable[[Person], set[str]]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = {}
    for place, person in enumerate(people):
        for key in keys(person):
            index.setdefault(key, []).append(place)
    return index


def _emails(person: Person) -> set[str]:
    return {key for one in (*person.emails, *person.ids) for key in emails_of(Student(one))}


def _found(index: Mapping[str, list[int]], keys: Iterable[str]) -> list[int]:
    return sorted({place for key in keys for place in index.get(key, ())})


def _agree(asked: _StudentKeys, person: Person) -> bool:
    return agree(asked.names, [person.name])


def _keys(names: Iterable[str]) -> set[str]:
    return {key for name in names for key in names_of(Student("", name))}


def _open(key: str, who: Sequence[str]) -> Message | None:
    """A remark that names students; None without any."""
    counted = Counter(who)
    return Message(f"export.{key}", {"who": listed(counted)}) if counted else None

"""Matches hand-ins with people: by the roster, and by what somebody writes to name one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from autograder.course.messages import both
from autograder.course.records import HandIn, Message, Student
from autograder.intake import attempts, names
from autograder.intake.attempts import Attributed
from autograder.intake.names import safe_id, unique_ids
from autograder.intake.roster import emails_of, ids_of, names_of
from autograder.intake.tree import PACKED, Entry

_WAYS: tuple[Callable[[Student], set[str]], ...] = (ids_of, emails_of, names_of)
_BY_NAME = len(_WAYS) - 1


class IdentityError(ValueError):
    """Somebody is named in a way that fits several; the text says whom, and the mend."""

    def __init__(self, where: str, given: str, found: Iterable[str]) -> None:
        values = {"where": where, "given": given, "found": ", ".join(sorted(found))}
        self.reason = Message("intake.several_people", values)
        super().__init__(both(self.reason))


class Enrolment:
    """The students who are enrolled.

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
        return self._found(student)[0]

    def completed(self, hand_in: HandIn) -> HandIn:
        """The hand-in with the ids, names and emails that the roster has for its students."""
        students = tuple(self._completed(one, hand_in) for one in hand_in.origin.students)
        return replace(hand_in, origin=replace(hand_in.origin, students=students))

    def identified(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries of single students under the ids that the roster has for them.

        A name alone is enough only for one person, whom no id or email of another hand-in means.
        """
        lines = [self._line(entry) for entry in entries]
        sure = {line for line, by_name in lines if line is not None and not by_name}
        by_name: dict[Student, set[attempts.People]] = {}
        for entry, (line, is_name) in zip(entries, lines, strict=True):
            if line is not None and is_name:
                by_name.setdefault(line, set()).add(attempts.people(entry))
        known: list[Student | None] = []
        for line, is_name in lines:
            doubtful = line is not None and is_name and (line in sure or len(by_name[line]) > 1)
            known.append(None if doubtful else line)
        ids = unique_ids(
            [
                safe_id(line.id) if line is not None else entry.student
                for entry, line in zip(entries, known, strict=True)
            ]
        )
        return [_under(*one) for one in zip(entries, known, ids, strict=True)]

    def knows(self, hand_in: HandIn) -> bool:
        """Return whether any of its students is on the roster."""
        told = hand_in.origin.students or (Student(hand_in.student),)
        return any(self.of(one) is not None for one in told)

    def _found(self, student: Student) -> tuple[Student | None, bool]:
        """The roster's line, and whether it was found by name."""
        for way, (known, keys) in enumerate(zip(self._known, _WAYS, strict=True)):
            found = {one for key in keys(student) if (one := known.get(key)) is not None}
            if len(found) == 1:
                return found.pop(), way == _BY_NAME
        return None, False

    def _line(self, entry: Entry) -> tuple[Student | None, bool]:
        if len(entry.origin.students) != 1:
            return None, False
        told = entry.origin.students[0]
        line, by_name = self._found(told if told.id else replace(told, id=entry.student))
        return (line, by_name) if line is not None and line.id else (None, False)

    def line_of(self, student: Student, handed: Attributed) -> Student | None:
        """The roster's line for a student of a hand-in, whose id may be all that is known."""
        return self.of(student if student.id else replace(student, id=handed.student))

    def _completed(self, student: Student, hand_in: HandIn) -> Student:
        line = self.line_of(student, hand_in)
        if line is None:
            return student
        name, email = line.name or student.name, line.email or student.email
        return replace(line, id=line.id or student.id, name=name, email=email)


def _under(entry: Entry, line: Student | None, student: str) -> Entry:
    """The entry under another id; as it was read where it has that, so that its record holds."""
    if line is None or student == entry.student:
        return _called(entry, student)
    told = entry.origin.students[0]
    whose = replace(line, name=line.name or told.name, email=line.email or told.email)
    return replace(_called(entry, student), origin=replace(entry.origin, students=(whose,)))


def _called(entry: Entry, student: str) -> Entry:
    """The entry under another id, without what was said of the one before."""
    if student == entry.student:
        return entry
    notes = tuple(note for note in entry.notes if note.values.get("used") != entry.student)
    return replace(entry, student=student, notes=notes)


def as_before(entries: Sequence[Entry], before: Iterable[HandIn]) -> list[Entry]:
    """The entries under the ids by which a class was graded, as its download or people tell."""
    by_name, by_people = {}, {}
    for hand_in in before:
        by_name[hand_in.origin.name] = by_people[attempts.people(hand_in)] = hand_in
    wanted = []
    for entry in entries:
        old = by_name.get(entry.origin.name) or by_people.get(attempts.people(entry))
        if old is not None and old.student != entry.student:
            origin = replace(entry.origin, students=old.origin.students)
            entry = replace(_called(entry, old.student), origin=origin)
        wanted.append(entry)
    ids = unique_ids([one.student for one in wanted])
    return [_called(one, student) for one, student in zip(wanted, ids, strict=True)]


class Directory:
    """Everybody of a class, found by id, email or display name.

    Args:
        handed: hand-ins, with all attempts.
        missing: who handed in nothing.
        enrolment: the roster, which may know more of those who did.
    """

    def __init__(
        self,
        handed: Iterable[Attributed],
        missing: Iterable[Student] = (),
        enrolment: Enrolment | None = None,
    ) -> None:
        self._exact: set[str] = set()
        self._keys: list[dict[str, set[tuple[str, str]]]] = [{} for _ in _WAYS]
        own: dict[attempts.People, str] = {}
        people: list[tuple[attempts.People, Student, str]] = []
        for one in handed:
            self._exact.add(one.student)
            group, students = attempts.people(one), one.origin.students
            own[group] = min(own.get(group, one.student), one.student, key=lambda s: (len(s), s))
            told = names.parse(one.origin.name)
            called = told.person if told else PACKED.sub("", one.origin.name)
            whose = _key(students[0], one.student) if len(students) == 1 else one.student
            people += [(group, Student(alias), whose) for alias in {one.student, safe_id(called)}]
            for student in students:
                key = _key(student, one.student)
                more = enrolment.line_of(student, one) if enrolment else None
                people += [(group, known, key) for known in (student, more) if known is not None]
        for group, student, whose in people:
            self._add(own[group], student, whose)
        for student in missing:
            self._add("", student, _key(student, student.name))

    def _add(self, hand_in: str, student: Student, whose: str) -> None:
        for known, keys in zip(self._keys, _WAYS, strict=True):
            for key in keys(student):
                known.setdefault(key, set()).add((hand_in, whose))

    def hand_in_of(self, text: str, where: str = "") -> str:
        """The id of the hand-in of whoever is meant; empty for nobody, or nothing handed in.

        Raises:
            IdentityError: it may be several.
        """
        if text in self._exact:
            return text
        found = {hand_in for hand_in, _ in self._meant(text)}
        if len(found) > 1:
            raise IdentityError(where, text, (one or who for one, who in self._meant(text)))
        return found.pop() if found else ""

    def key_of(self, text: str, where: str = "") -> str:
        """An id or an email of whoever is meant; what was given, where that is nobody.

        Raises:
            IdentityError: it may be several.
        """
        found = {key for _, key in self._meant(text)}
        if len(found) > 1:
            raise IdentityError(where, text, found)
        return found.pop() if found else text

    def _meant(self, text: str) -> set[tuple[str, str]]:
        for known, keys in zip(self._keys, _WAYS, strict=True):
            found = [known[key] for key in keys(Student(text)) if key in known]
            if found:
                return set().union(*found)
        return set()


def _key(student: Student, otherwise: str) -> str:
    return student.id or student.email or otherwise

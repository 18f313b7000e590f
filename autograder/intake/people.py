"""Matches hand-ins with people: by the roster, and by what somebody writes to name one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from autograder.course.messages import both
from autograder.course.records import HandIn, Message, Student
from autograder.intake import attempts, names
from autograder.intake.attempts import AttributedHandIn
from autograder.intake.names import safe_id, unique_ids
from autograder.intake.roster import Roster, agree, emails_of, ids_of, names_of, words_of
from autograder.intake.tree import PACKED, Entry

_WAYS: tuple[Callable[[Student], set[str]], ...] = (ids_of, emails_of, names_of)
_SIGNS = re.compile(r"[\s_\-+.,()＿－—（）【】\[\]]+")
_BY_NAME = len(_WAYS) - 1
# Notes on hand-ins of which a person has to say whose they are.
DOUBTS = ("grade.same_line", "grade.other_name")


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
        logins = roster.logins if isinstance(roster, Roster) else {}
        self.listed = tuple(roster)
        for student in self.listed:
            for known, keys in zip(self._known, _WAYS, strict=True):
                more = {Student(logins.get(student, ""))} if keys is ids_of else set()
                for key in {key for one in {student, *more} for key in keys(one)}:
                    known[key] = None if known.get(key, student) != student else student

    def of(self, student: Student) -> Student | None:
        """The roster's line for somebody; None if there is none, or more than one."""
        return self._found(student)[0]

    def completed(self, hand_in: HandIn) -> HandIn:
        """The hand-in with what the roster has for its students; a doubtful one as it is."""
        if any(note.key == DOUBTS[0] for note in hand_in.notes):
            return hand_in
        students = tuple(self._completed(one, hand_in) for one in hand_in.origin.students)
        return replace(hand_in, origin=replace(hand_in.origin, students=students))

    def identified(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries of single students under the ids that the roster has for them.

        A name alone is enough only for one person, whom no id or email of another hand-in means.
        Others of that name, and whoever has the id of somebody of another name, get a note.
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
        found = []
        for entry, line, (meant, _), student in zip(entries, known, lines, ids, strict=True):
            notes = [*_under(entry, line, student).notes]
            if meant is not None and line is None:
                alike = [
                    one.origin.name or one.student
                    for one, (its, _) in zip(entries, lines, strict=True)
                    if its == meant and one is not entry
                ]
                values = {"line": meant.name or meant.id, "id": meant.id}
                values["others"] = ", ".join(alike)
                notes.append(Message("grade.same_line", values))
            others = [one.id for one in entry.origin.students if self._is_anothers(one)]
            if others:
                notes.append(Message("grade.other_name", {"who": ", ".join(others)}))
            found.append(replace(_under(entry, line, student), notes=tuple(notes)))
        return found

    def knows(self, hand_in: HandIn) -> bool:
        """Return whether any of its students is on the roster."""
        told = hand_in.origin.students or (Student(hand_in.student),)
        return any(self.of(one) is not None for one in told)

    def _found(self, student: Student) -> tuple[Student | None, bool]:
        """The roster's line, and whether it was found by name."""
        for way, (known, keys) in enumerate(zip(self._known, _WAYS, strict=True)):
            found = {one for key in keys(student) if (one := known.get(key)) is not None}
            if keys is ids_of:
                found = {one for one in found if self._may_be(student, one)}
            if len(found) == 1:
                return found.pop(), way == _BY_NAME
        return None, False

    def _may_be(self, student: Student, line: Student) -> bool:
        """Return whether the names allow what an id says: systems have numbers of their own."""
        called = names_of(Student("", student.name))
        if called & names_of(Student("", line.name)):
            return True
        if called & self._known[_BY_NAME].keys():  # somebody else is called exactly so
            words = [words_of([one.name]) for one in (student, line)]
            return all(words) and (words[0] <= words[1] or words[1] <= words[0])
        return agree([student.name], [line.name])

    def _is_anothers(self, student: Student) -> bool:
        """Return whether nobody is found because the id stands beside another name."""
        ids = self._known[0].keys() & ids_of(student)
        return bool(ids) and student.name != "" and self.of(student) is None

    def _line(self, entry: Entry) -> tuple[Student | None, bool]:
        if len(entry.origin.students) != 1:
            return None, False
        told = entry.origin.students[0]
        line, by_name = self._found(told if told.id else replace(told, id=entry.student))
        if line is None and not told.name:
            line, by_name = self._in_words_of(told.id), True
        return (line, by_name) if line is not None and line.id else (None, False)

    def _in_words_of(self, name: str) -> Student | None:
        """The line of the one id that stands by itself in a name, as of ``20S1_Alice_lab2.zip``."""
        ids = self._known[0]
        words = {key for word in _SIGNS.split(name) if word for key in ids_of(Student(word))}
        found = {ids[word] for word in words if word in ids}
        return found.pop() if len(found) == 1 else None

    def line_of(self, student: Student, handed: AttributedHandIn) -> Student | None:
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
        handed: Iterable[AttributedHandIn],
        missing: Iterable[Student] = (),
        enrolment: Enrolment | None = None,
    ) -> None:
        self._exact: set[str] = set()
        self._keys: list[dict[str, set[tuple[str, str]]]] = [{} for _ in _WAYS]
        own: dict[attempts.People, str] = {}
        people: list[tuple[attempts.People, Student, str]] = []
        # By a line of the roster, the hand-ins of single students that may be its.
        alike: dict[Student, set[tuple[attempts.People, str]]] = {}
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
                more = enrolment.line_of(student, one) if enrolment else _noted(one)
                people += [(group, known, key) for known in (student, more) if known is not None]
                if more is not None and len(students) == 1:
                    alike.setdefault(more, set()).add((group, key))
        for group, student, whose in people:
            self._add(own[group], student, whose)
        for student in missing:
            self._add("", student, _key(student, student.name))
        self._alike = [{(own[group], key) for group, key in found} for found in alike.values()]

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
                meant = set().union(*found)
                # Who handed in under several spellings is not meant by one of them alone.
                also = [one for one in self._alike if one & meant and text not in self._exact]
                return meant.union(*also)
        return set()


def _noted(handed: AttributedHandIn) -> Student | None:
    """The roster's line that several hand-ins may be of, as a note of one of them says."""
    notes: Iterable[Message] = getattr(handed, "notes", ())
    lines = [note.values for note in notes if note.key == DOUBTS[0]]
    return Student(str(lines[0].get("id", "")), str(lines[0].get("line", ""))) if lines else None


def _key(student: Student, otherwise: str) -> str:
    return student.id or student.email or otherwise

"""From whatever was downloaded to a list of hand-ins, each read when it is its turn.

Only a wrong *source* (a slip of the instructor) raises here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.course.messages import both
from autograder.course.records import Lab, Message, Origin, Student
from autograder.intake import attempts
from autograder.intake.class_folder import ClassFolder, InArchive, OnDisk
from autograder.intake.layout import HandInPlace
from autograder.intake.layout import survey as layout_of
from autograder.intake.names import (
    CLASS_DIGITS,
    GROUPS,
    by_pattern,
    iso,
    parse,
    readable,
    shown,
    skeleton,
    unique_ids,
)
from autograder.intake.shape import doubts
from autograder.intake.tree import PACKED, Entry, Piece, RefusedError, may_be_work

_LISTED = 20  # names in a remark


class SourceError(ValueError):
    """The source, or the pattern for it, is wrong; the text says so in both languages."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        self.reason = Message(f"intake.{key}", {"path": str(path), **values})
        super().__init__(both(self.reason))


@dataclass(frozen=True)
class Survey:
    """The hand-ins of a source, sorted by id, and what the instructor should know of the rest.

    ``remarks`` name files that belong to nobody, names that ``--pattern`` does not match, and
    metadata that could not be read.
    """

    entries: tuple[Entry, ...]
    remarks: tuple[Message, ...] = ()


def find(source: Path, lab: Lab, pattern: str | None = None) -> list[Entry]:
    """The entries of :func:`survey`."""
    return list(survey(source, lab, pattern).entries)


def survey(source: Path, lab: Lab, pattern: str | None = None) -> Survey:
    """List the hand-ins of ``source``. Reads no hand-in.

    Args:
        source: a class, as a folder or as one zip or tar (of folders, of zips, or of loose
            files, as course systems name them); or a single hand-in, a folder that holds the
            lab's files or one archive, whose name is then the student's.
        lab: its ``files`` tell a single hand-in from a class.
        pattern: for names of other systems, a regular expression with ``(?P<student_id>…)``
            and any of ``download_names.GROUPS``. It is searched for in the name of each folder,
            archive and loose file.

    Raises:
        SourceError: ``source`` does not exist or holds no hand-in; ``pattern`` does not
            compile, lacks ``student_id``, has unknown groups, or matches nothing.
    """
    try:
        root = source.resolve()
        there = root.exists()
    except (OSError, RuntimeError):  # a loop of links
        raise SourceError("unlistable", source) from None
    if not there:
        raise SourceError("no_source", source)
    if root.suffix.lower() in (".py", ".ipynb") and not os.path.isdir(root):
        raise SourceError("single_file", source)
    compiled = None if pattern is None else _compiled(pattern, source)
    remarks: list[Message] = []
    try:
        place = _place(root)
        layout = None if place is None else layout_of(place, lab, compiled)
    except OSError:
        raise SourceError("unlistable", source) from None
    if layout is None:
        hand_ins: tuple[HandInPlace, ...] = (_single(root, compiled),)
    else:
        hand_ins = layout.hand_ins
        remarks += layout.remarks
        strays = [*layout.strays, *(place.outside() if place else ())]
        known = {student.id for one in hand_ins for student in one.students}
        sources = [name for name in strays if may_be_work(name)]
        alone = [name for name in strays if name not in sources and _is_all_of(name, known)]
        others = [name for name in strays if name not in (*sources, *alone)]
        if sources:
            remarks.append(Message("intake.stray_sources", _listed(sources)))
        if alone:
            remarks.append(Message("intake.stray_people", _listed(alone)))
        if others:
            remarks.append(Message("intake.strays", _listed(others)))
        if numbers := _of_two_names(hand_ins):
            remarks.append(Message("intake.same_number", _listed(numbers)))
    if place is not None and len(hand_ins) == 1 and not hand_ins[0].known:
        remarks += doubts(place, lab)
    if not hand_ins:
        raise SourceError("no_hand_ins", source)
    if compiled is not None and not any(one.known for one in hand_ins):
        raise SourceError("pattern_idle", source, pattern=pattern, name=shown(hand_ins[0].name))
    entries = attempts.numbered(_entries(root, hand_ins, layout is None))
    return Survey(tuple(sorted(entries, key=lambda entry: entry.student)), tuple(remarks))


def _compiled(pattern: str, source: Path) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise SourceError("pattern_broken", source, pattern=pattern, text=str(error)) from None
    known = ", ".join(GROUPS)
    if "student_id" not in compiled.groupindex:
        raise SourceError("pattern_lacks_id", source, pattern=pattern)
    if unknown := [name for name in compiled.groupindex if name not in GROUPS]:
        found = ", ".join(unknown)
        raise SourceError("pattern_groups", source, pattern=pattern, found=found, known=known)
    return compiled


def _place(root: Path) -> ClassFolder | None:
    """The source as a class that can be listed; None for what can only be a single hand-in."""
    if os.path.isdir(root):
        return OnDisk(root)
    try:
        return InArchive(root)
    except RefusedError as error:
        if error.reason.key == "intake.too_many":  # a class, of which nobody may hide the others
            raise SourceError("too_many_members", root, **error.reason.values) from None
        if error.reason.key == "intake.too_much":
            raise SourceError("too_much_packed", root, **error.reason.values) from None
        return None  # reading it as a hand-in says what is wrong


def _single(root: Path, pattern: re.Pattern[str] | None) -> HandInPlace:
    name = readable(root.name)
    stem = name if os.path.isdir(root) else PACKED.sub("", name)
    told = pattern and (by_pattern(pattern, name) or by_pattern(pattern, stem))
    if told:
        return HandInPlace(
            name, told.person, (), (told.student,), told.submitted_at, attempt=told.attempt
        )
    return HandInPlace(name, stem, (), (Student(stem),), known=False)


def _entries(root: Path, hand_ins: Sequence[HandInPlace], single: bool) -> list[Entry]:
    persons = [one.person for one in hand_ins]
    entries = []
    for one, student in zip(hand_ins, unique_ids(persons), strict=True):
        # A course system's names hold spaces as a rule; that they become `_` is no news.
        given = re.sub(r"\s", "_", one.person) if one.known else one.person
        notes = list(one.notes)
        if student != given:
            notes.append(Message("intake.renamed", {"given": shown(one.person), "used": student}))
        path, pieces = root, one.pieces
        if not single and os.path.isdir(root) and len(pieces) == 1 and _alone(pieces[0]):
            path, pieces = root / pieces[0].path, ()
        origin = Origin(
            shown(one.name), one.students, one.submitted_at, one.late, max(one.attempt, 1)
        )
        entries.append(Entry(student, path, tuple(notes), origin, pieces))
    return _with_doubles(entries)


def _listed(names: Sequence[str]) -> dict[str, object]:
    more = ", …" if len(names) > _LISTED else ""
    return {"count": len(names), "names": ", ".join(map(shown, names[:_LISTED])) + more}


def _is_all_of(name: str, known: Collection[str]) -> bool:
    """Return whether a name tells of a person, by number and name, of whom nothing else is here."""
    told = parse(name.rsplit(".", 1)[0])
    if told is None or told.group[0] != "chinese" or iso(told.student.id):
        return False
    # `名单2024.xlsx` is nobody's.
    digits = sum(map(str.isdigit, told.student.id))
    return told.student.id not in known and digits > CLASS_DIGITS


def _of_two_names(hand_ins: Sequence[HandInPlace]) -> list[str]:
    """The numbers of students that stand beside more than one name, with the names."""
    names: dict[str, dict[str, None]] = {}
    for student in (student for one in hand_ins for student in one.students):
        number = student.id.removesuffix(f"_{student.name}")  # the layout has told them apart so
        if student.name and sum(map(str.isdigit, number)) > CLASS_DIGITS:
            names.setdefault(number, {})[student.name] = None
    return [f"{number} ({' / '.join(its)})" for number, its in names.items() if len(its) > 1]


def _alone(piece: Piece) -> bool:
    """Return whether a piece can be read as a hand-in by itself: a folder, or an archive."""
    return not piece.name or PACKED.search(piece.name) is not None


def _with_doubles(entries: list[Entry]) -> list[Entry]:
    """Note ids that a reader takes for one another though they are spelt differently."""
    drawn: dict[str, set[str]] = {}
    for entry in entries:
        drawn.setdefault(skeleton(entry.student), set()).add(entry.student)
    noted = []
    for entry in entries:
        others = sorted(drawn[skeleton(entry.student)] - {entry.student})
        if others:
            values = {"used": entry.student, "others": ", ".join(others)}
            message = Message("intake.lookalike_id", values)
            entry = Entry(
                entry.student, entry.path, (*entry.notes, message), entry.origin, entry.pieces
            )
        noted.append(entry)
    return noted

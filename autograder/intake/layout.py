"""Hand-ins of a class folder or class archive, by the layouts of course systems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from importlib import import_module
from typing import Any

from autograder.course.records import Lab, Message, Student
from autograder.intake import shape
from autograder.intake.choose import FolderRank, standing
from autograder.intake.class_folder import ClassFolder
from autograder.intake.names import Download, is_meant, iso, readable, shown, some
from autograder.intake.tree import (
    MAX_PACKED_BYTES,
    METADATA,
    PACKED,
    TIMESTAMP,
    FoundPath,
    Kind,
    Piece,
    may_be_work,
)
from autograder.intake.whose import download, downloads, stem
from autograder.sandbox.fence import Fence, FenceError

# Files of one name in one hand-in, of which a course system keeps the older ones, too.

_NUMBERED = re.compile(  # the number stands before all endings: lab-1.tar.gz
    r"(?P<stem>.+?)-(?P<number>\d{1,3})(?P<suffix>(?:\.[A-Za-z]\w*)*\.[^.]+)", re.DOTALL
)


def newest(
    named: Sequence[tuple[Piece, int]], files: Sequence[str]
) -> tuple[tuple[Piece, ...], list[Message]]:
    """Of ``attention.py`` and ``attention-1.py`` keep the newer, under the lab's name.

    Args:
        named: the files of one hand-in, each with a number that grows with time.
        files: the lab's files; other names keep their number unless both are there.

    Returns:
        What remains, and a note per file that was taken under another name or set aside.
    """
    plain = {piece.name for piece, _ in named} | set(files)
    families: dict[str, list[tuple[int, int, Piece]]] = {}
    for piece, newer in named:
        base, number = piece.name, 0
        if (match := _NUMBERED.fullmatch(piece.name)) and match["stem"] + match["suffix"] in plain:
            base, number = match["stem"] + match["suffix"], int(match["number"])
        # Folders have no name: each is a family of its own.
        families.setdefault(base or f"{piece.path}/", []).append((number, newer, piece))
    kept: list[Piece] = []
    notes: list[Message] = []
    for base, family in families.items():
        *older, (number, _, last) = sorted(family, key=lambda one: one[:2])
        kept.append(last if not last.name else Piece(last.path, base))
        if number:
            values = {"file": shown(base), "found": shown(last.name)}
            notes.append(Message("intake.resubmitted", values))
        if older:
            names = ", ".join(shown(piece.name) for _, _, piece in older)
            notes.append(Message("intake.replaced", {"file": shown(base), "found": names}))
    return tuple(kept), notes


Members = list[tuple[FoundPath, Download]]
_SYSTEMS = ("canvas", "moodle", "blackboard", "dated")  # whose files of one person are one hand-in

_REPORT = "report"
_ABOUT = re.compile(r"report|报告|文档|截图", re.IGNORECASE)

# The children of a class folder, grouped into hand-ins by what their names tell.


@dataclass(frozen=True)
class HandInPlace:
    """One hand-in: its name as downloaded, the id it asks for, and what is known of it."""

    name: str
    person: str
    pieces: tuple[Piece, ...]
    students: tuple[Student, ...]
    submitted_at: str = ""
    late: bool | None = None
    attempt: int = 0
    notes: tuple[Message, ...] = ()
    known: bool = True  # a course system's name, or metadata, was understood


@dataclass(frozen=True)
class Layout:
    """The hand-ins, names that belong to nobody, and remarks for the instructor."""

    hand_ins: tuple[HandInPlace, ...]
    strays: tuple[str, ...] = ()
    remarks: tuple[Message, ...] = ()


def by_names(children: list[FoundPath], lab: Lab, pattern: re.Pattern[str] | None) -> Layout:
    """Group the children of a class folder by whose they are."""
    hand_ins: list[HandInPlace] = []
    strays: list[str] = []
    groups: dict[tuple[str, ...], Members] = {}
    unmatched: list[str] = []
    for one, told in downloads(children, pattern, lab.files):
        whole = one.kind in (Kind.FOLDER, Kind.SYMLINK) or PACKED.search(one.name) is not None
        if told is None and whole:
            unmatched.append(readable(one.name))
            hand_ins.append(plain(one, pattern))
        elif told is None:
            strays.append(readable(one.name))
        elif told.file or not whole or told.group[0] in _SYSTEMS:
            groups.setdefault(told.group, []).append((one, told))
        else:
            groups[(*told.group, one.path)] = [(one, told)]
    hand_ins += [_group(members, lab) for members in _put_together([*groups.values()], lab)]
    if pattern is None:
        hand_ins = _told_apart(hand_ins)
    remarks = []
    if pattern is not None and unmatched:
        names = some(unmatched)
        remarks.append(Message("intake.unmatched", {"count": len(unmatched), "names": names}))
    return Layout(tuple(hand_ins), tuple(strays), tuple(remarks))


def _put_together(groups: list[Members], lab: Lab) -> list[Members]:
    """The hand-ins, where what is one person's by number and name may be parts of one of them.

    Attention and MLP in archives of their own, or code and a report, are; of all else one may be
    a later version. A loose file that cannot be work belongs to what there is of its student.
    """
    people: dict[tuple[str, ...], list[Members]] = {}
    for members in groups:
        told = members[0][1]
        beside = told.group if told.group[0] == "chinese" else (*told.group, members[0][0].path)
        people.setdefault(beside, []).append(members)

    def work(members: Members) -> Members:
        return [(one, told) for one, told in members if _may_be_work(one, told, lab)]

    known = {it for one in groups if work(one) for it in (one[0][1].student, *one[0][1].partners)}
    together: list[Members] = []
    for theirs in people.values():
        if theirs[0][0][1].group[0] == "chinese" and theirs[0][0][1].student in known:
            theirs = [one for one in theirs if work(one)]
        members = [member for one in theirs for member in work(one)]
        parts = [_part(one, told, lab) for one, told in members]
        alone = "" not in parts or set(parts) == {"", _REPORT}
        if len(theirs) > 1 and alone and len(set(parts)) == len(parts):
            order = sorted(range(len(parts)), key=lambda place: parts[place] == _REPORT)
            together.append([members[place] for place in order])
        else:
            together += theirs
    return together


def _may_be_work(one: FoundPath, told: Download, lab: Lab) -> bool:
    name = told.file or readable(one.name)
    meant = any(is_meant(name, file) for file in lab.files)
    return one.kind is not Kind.FILE or may_be_work(name) or meant


def _part(one: FoundPath, told: Download, lab: Lab) -> str:
    """The file of the lab that a name is about, a report, another loose file; else empty."""
    if told.file:
        return told.file
    meant = [file for file in lab.files if is_meant(f"{told.rest}.py", file)]
    if one.kind is Kind.SYMLINK or len(meant) > 1:
        return ""
    return _REPORT if _ABOUT.search(told.rest) else "".join(meant)


def _told_apart(hand_ins: list[HandInPlace]) -> list[HandInPlace]:
    """Nobody is joined with somebody else by a number that comes with several names."""
    names: dict[str, set[str]] = {}
    for one in hand_ins:
        for student in one.students:
            names.setdefault(student.id, set()).add(student.name)
    return [
        replace(one, students=tuple(replace(each, id=_whole(one, each)) for each in one.students))
        if any(len(names[each.id]) > 1 and each.name for each in one.students)
        else one
        for one in hand_ins
    ]


def _whole(one: HandInPlace, student: Student) -> str:
    """Return what stands for a student whose number alone does not."""
    return one.person if len(one.students) == 1 else f"{student.id}_{student.name}"


def plain(one: FoundPath, pattern: re.Pattern[str] | None) -> HandInPlace:
    """A folder or archive whose name is all that is known."""
    name = readable(one.name)
    note = Message("intake.unmatched_one", {"name": name})
    return HandInPlace(
        name=name,
        person=stem(one),
        pieces=(piece(one),),
        students=(Student(stem(one)),),
        notes=(note,) if pattern is not None else (),
        known=False,
    )


def piece(one: FoundPath, name: str = "") -> Piece:
    """The child as a piece: a folder, or a file that counts as ``name``."""
    if one.kind is Kind.FOLDER or (one.kind is Kind.SYMLINK and not PACKED.search(one.name)):
        return Piece(one.path)
    return Piece(one.path, name or readable(one.name))


def _group(members: Members, lab: Lab) -> HandInPlace:
    """One hand-in of what belongs together; typed-in text only where there is no file."""
    told = [download for _, download in members]
    files = [(one, download) for one, download in members if not download.entered]
    typed = [readable(one.name) for one, download in members if download.entered]
    notes = [Message("intake.typed_text", {"found": some(typed)})] if typed else []
    named = [(piece(one, download.file), download.newer) for one, download in files or members]
    pieces, replaced = newest(named, lab.files)
    late = [download.late for download in told if download.late is not None]
    return HandInPlace(
        # Of several loose files the first: its name still tells the system and its number.
        name=readable(members[0][0].name),
        person=told[0].person,
        pieces=pieces,
        students=(told[0].student, *told[0].partners),
        submitted_at=max(download.submitted_at for download in told),
        late=any(late) if late else None,
        attempt=max(download.attempt for download in told),
        notes=(*notes, *replaced),
    )


# ``submission_metadata.yml`` of a Gradescope export: who handed in which folder, and when.

# What PyYAML itself raises on values that are not what their tags say, or beyond all dates.
_DAMAGE = (ValueError, TypeError, LookupError, RecursionError, AttributeError, OverflowError)


@dataclass(frozen=True)
class SubmissionMetadata:
    """Metadata of one folder. ``attempt`` counts those before it, too."""

    students: tuple[Student, ...]
    submitted_at: str
    attempt: int


def parse(data: bytes) -> dict[str, SubmissionMetadata]:
    """The folders by name (``submission_<number>``); those of odd entries are left out.

    Keys are Ruby symbols: ``:submitters`` (each ``:name``, ``:sid``, ``:email``),
    ``:created_at``, ``:history`` (earlier submissions).

    Raises:
        ValueError: no YAML, or no mapping.
    """
    yaml: Any = import_module("yaml")  # only an export needs it
    safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, many times faster
    # Tags of Ruby classes become plain values; nothing is ever constructed from them.
    loader: Any = type("Loader", (safe,), {})

    def bare(self: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)

    loader.add_multi_constructor("!", bare)
    try:
        found = yaml.load(data, loader)  # a SafeLoader
    except (yaml.YAMLError, *_DAMAGE) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
    if not isinstance(found, dict):
        raise ValueError("no mapping of folders")
    return {
        str(name): _submitted(entry) for name, entry in found.items() if isinstance(entry, dict)
    }


def _submitted(entry: Mapping[Any, Any]) -> SubmissionMetadata:
    told = _plain_keys(entry)
    submitters = told.get("submitters")
    people = [
        _plain_keys(person)
        for person in (submitters if isinstance(submitters, list) else [])
        if isinstance(person, dict)
    ]
    students = tuple(_student(person) for person in people)
    history = told.get("history")
    earlier = len(history) if isinstance(history, list) else 0
    return SubmissionMetadata(students, _time(told.get("created_at")), earlier + 1)


def _student(told: Mapping[str, Any]) -> Student:
    name, email = _text(told.get("name")), _text(told.get("email"))
    return Student(_text(told.get("sid")) or email or name, name, email)


def _plain_keys(entry: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).lstrip(":"): value for key, value in entry.items()}


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _time(value: Any) -> str:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return iso(_text(value))


_STEPS = {"source", "release", "submitted", "autograded", "feedback", "solution", "downloaded"}


def survey(place: ClassFolder, lab: Lab, pattern: re.Pattern[str] | None) -> Layout | None:
    """The hand-ins of a class, or None if ``place`` itself is a single one. Raises OSError.

    A lone folder that is taken for one around the class is told: it may be one student's.
    """
    layout, around = _survey(place, lab, pattern)
    if layout is None or not (around and place.on_disk):
        return layout
    told = {"path": readable(around), "count": len(layout.hand_ins)}
    return replace(layout, remarks=(*layout.remarks, Message("intake.wrapped", told)))


def _survey(
    place: ClassFolder, lab: Lab, pattern: re.Pattern[str] | None
) -> tuple[Layout | None, str]:
    """See :func:`survey`; and the lone folder that was gone into, if one was."""
    folder, around, course = "", "", False
    for _ in range(shape.WRAPPERS):
        children = place.children(folder)
        if pattern is not None and any(download(one, pattern) for one in children):
            return by_names(children, lab, pattern), around
        if pattern is None and any(one.name == METADATA for one in children):
            return _gradescope(place, folder, children, lab), around
        if shape.is_single(place, children, lab):
            return None, ""
        lone = len(children) == 1 and shape.section(place, children[0], lab)
        if pattern is None and not lone and shape.is_told(children):
            return _in_sections(place, children, lab, None), around
        submitted = [one for one in children if one.name == "submitted"]
        if (folder.rsplit("/", 1)[-1] or place.name) == "submitted" and not shape.packed(children):
            return _nbgrader(place, children, lab, pattern), around
        if submitted and _STEPS.issuperset(one.name for one in shape.folders_in(children)):
            folder = submitted[0].path
            continue
        if not shape.several(place, children, lab) and (
            ours := shape.of_course(place, children, lab)
        ):
            best = min(ours, key=lambda one: standing(one.name, lab.name))
            if standing(best.name, lab.name) is FolderRank.OTHER:
                return None, ""  # somebody's folders of other labs
            folder, course = best.path, True
            continue
        folders = shape.folders_in(children)
        if (
            len(folders) != 1
            or shape.packed(children)
            or not shape.holds_class(place, folders[0], lab)
        ):
            break
        folder = around = folders[0].path
    if (course or not place.on_disk) and not shape.several(place, children, lab):
        return None, ""  # one archive, or folders of the course, and nothing speaks for a class
    return _in_sections(place, children, lab, pattern), around


def _in_sections(
    place: ClassFolder, children: list[FoundPath], lab: Lab, pattern: re.Pattern[str] | None
) -> Layout:
    """The hand-ins of a class whose sections may lie in folders; other doubts are remarks.

    A name that is in two sections has that of its section in front.
    """
    inner = {one: shape.section(place, one, lab) for one in children} if len(children) > 1 else {}
    layout = by_names([it for one in children for it in inner.get(one) or [one]], lab, pattern)
    told = [
        Message("intake.wrapped", {"path": readable(one.path), "count": len(its)})
        for one, its in inner.items()
        if its
    ]
    plain_ones = [one.person for one in layout.hand_ins if not one.known]
    hand_ins = []
    for one in layout.hand_ins:
        path = one.pieces[0].path.rsplit("/", 2)
        if not one.known and plain_ones.count(one.person) > 1 and len(path) > 1:
            person = f"{readable(path[-2])}_{one.person}"
            one = replace(one, person=person, students=(Student(person),))
        hand_ins.append(one)
    # 计科2101.zip reads like the name and the number of somebody.
    paths = {one.pieces[0].path: one.known for one in hand_ins}
    kept = {path for path, known in paths.items() if not known or PACKED.search(path)}
    doubtful = [
        readable(one.name) for one in inner if one.path in kept and shape.sections(place, one, lab)
    ]
    if doubtful:
        told.append(Message("intake.sections", {"names": some(doubtful)}))
    return replace(layout, hand_ins=tuple(hand_ins), remarks=(*layout.remarks, *told))


def _gradescope(place: ClassFolder, folder: str, children: list[FoundPath], lab: Lab) -> Layout:
    path = f"{folder}/{METADATA}" if folder else METADATA
    data = place.read(path, MAX_PACKED_BYTES)
    try:
        if data is None:
            raise ValueError("not readable")
        known = metadata(data)
    except ValueError as error:
        layout = by_names([one for one in children if one.name != METADATA], lab, None)
        remark = Message("intake.metadata_unread", {"path": path, "text": str(error)})
        return replace(layout, remarks=(*layout.remarks, remark))
    hand_ins, strays = [], []
    for one in children:
        told = known.get(readable(one.name))
        if one.kind is Kind.FILE and not PACKED.search(one.name):
            strays += [one.name] if one.name != METADATA else []
        elif told is None or not told.students:
            note = Message("intake.not_in_metadata", {"name": readable(one.name)})
            hand_ins.append(replace(plain(one, None), notes=(note,)))
        else:
            number = one.name.rsplit("_", 1)[-1]
            names = [student.name or student.id for student in told.students]
            hand_ins.append(
                HandInPlace(
                    name=readable(one.name),
                    person="_".join([*names[:4], number]),
                    pieces=(piece(one),),
                    students=told.students,
                    submitted_at=told.submitted_at,
                    attempt=told.attempt,
                )
            )
    return Layout(tuple(hand_ins), tuple(strays))


def metadata(data: bytes) -> dict[str, SubmissionMetadata]:
    """The metadata of an export, read in a process of its own: libyaml nests without an end.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        with Fence() as fence:
            return fence(parse, data)
    except FenceError as error:
        raise ValueError(error.text.removeprefix("ValueError: ") or error.why) from None


def _nbgrader(
    place: ClassFolder, students: list[FoundPath], lab: Lab, pattern: re.Pattern[str] | None
) -> Layout:
    """``submitted/<student>/<assignment>/``; of several assignments, the one called as the lab."""
    layout = by_names(students, lab, pattern)
    folders = {one.path: one for one in shape.folders_in(students)}  # never through a link
    hand_ins = []
    for one in layout.hand_ins:
        path = one.pieces[0].path
        inner = shape.folders_in(shape.listed(place, folders[path])) if path in folders else []
        mine = [f for f in inner if f"{lab.name}_".startswith(f"{f.name}_")]
        chosen = mine[0].path if mine else inner[0].path if len(inner) == 1 else path
        stamp = (place.read(f"{chosen}/{TIMESTAMP}", 1000) if path in folders else None) or b""
        hand_ins.append(
            replace(
                one,
                pieces=(replace(one.pieces[0], path=chosen),),
                submitted_at=one.submitted_at or iso(stamp.decode("utf-8", "replace")),
            )
        )
    return replace(layout, hand_ins=tuple(hand_ins))

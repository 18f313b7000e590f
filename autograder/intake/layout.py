"""Hand-ins of a class folder or class archive, by the layouts of course systems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from importlib import import_module
from typing import Any

from autograder.course.records import Lab, Message, Student
from autograder.intake import names as intake_names
from autograder.intake.choose import FolderRank, standing
from autograder.intake.class_folder import ClassFolder
from autograder.intake.names import Download, iso, readable, shown
from autograder.intake.tree import MAX_PACKED_BYTES, METADATA, PACKED, TIMESTAMP, Found, Kind, Piece
from autograder.sandbox.fence import Fence, FenceError

# Files of one name in one hand-in, of which a course system keeps the older ones, too.

_NUMBERED = re.compile(r"(?P<stem>.+?)-(?P<number>\d{1,3})(?P<suffix>\.[^.]+)", re.DOTALL)


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


def _stem(one: Found) -> str:
    """The name without the ending of an archive."""
    return readable(one.name) if one.kind is Kind.FOLDER else PACKED.sub("", readable(one.name))


def download(one: Found, pattern: re.Pattern[str] | None) -> Download | None:
    """Return what the name of a child of the class tells, by the pattern if there is one."""
    if pattern is not None:
        told = intake_names.by_pattern(pattern, readable(one.name))
        return told or intake_names.by_pattern(pattern, _stem(one))
    whole = one.kind is Kind.FOLDER or PACKED.search(one.name) is not None
    told = intake_names.parse(readable(one.name))
    if whole and (told is None or told.group[0] == "chinese"):
        # What follows in `学号_姓名_lab2.zip` is no file of a hand-in, but names one of its own.
        told = intake_names.parse(_stem(one))
        return None if told is None else replace(told, file="")
    # A loose file whose name names a person but no file is nobody's.
    return told if told is not None and (whole or told.file) else None


def by_names(children: list[Found], lab: Lab, pattern: re.Pattern[str] | None) -> Layout:
    """Group the children of a class folder by whose they are."""
    hand_ins: list[HandInPlace] = []
    strays: list[str] = []
    groups: dict[tuple[str, ...], list[tuple[Found, Download]]] = {}
    unmatched: list[str] = []
    for one in children:
        told = download(one, pattern)
        whole = one.kind in (Kind.FOLDER, Kind.SYMLINK) or PACKED.search(one.name) is not None
        if told is None and whole:
            unmatched.append(readable(one.name))
            hand_ins.append(plain(one, pattern))
        elif told is None:
            strays.append(readable(one.name))
        elif told.file or not whole or told.group[0] in ("canvas", "moodle"):
            groups.setdefault(told.group, []).append((one, told))
        else:
            groups[(*told.group, one.path)] = [(one, told)]
    hand_ins += [_group(members, lab) for members in groups.values()]
    remarks = []
    if pattern is not None and unmatched:
        names = some(unmatched)
        remarks.append(Message("intake.unmatched", {"count": len(unmatched), "names": names}))
    return Layout(tuple(hand_ins), tuple(strays), tuple(remarks))


def plain(one: Found, pattern: re.Pattern[str] | None) -> HandInPlace:
    """A folder or archive whose name is all that is known."""
    name = readable(one.name)
    note = Message("intake.unmatched_one", {"name": name})
    return HandInPlace(
        name=name,
        person=_stem(one),
        pieces=(piece(one),),
        students=(Student(_stem(one)),),
        notes=(note,) if pattern is not None else (),
        known=False,
    )


def piece(one: Found, name: str = "") -> Piece:
    """The child as a piece: a folder, or a file that counts as ``name``."""
    if one.kind is Kind.FOLDER or (one.kind is Kind.SYMLINK and not PACKED.search(one.name)):
        return Piece(one.path)
    return Piece(one.path, name or readable(one.name))


def _group(members: list[tuple[Found, Download]], lab: Lab) -> HandInPlace:
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
        students=(told[0].student,),
        submitted_at=max(download.submitted_at for download in told),
        late=any(late) if late else None,
        attempt=max(download.attempt for download in told),
        notes=(*notes, *replaced),
    )


def some(names: list[str]) -> str:
    """Some names for a message."""
    return ", ".join(map(shown, names[:10])) + (", …" if len(names) > 10 else "")


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


_WRAPPERS = 8  # folders around the class that are gone into
_LOOKS = 2000  # folders of one hand-in that are listed to tell a class from a single one
_BUNDLE = re.compile(rf"\.ipynb$|{PACKED.pattern}", re.IGNORECASE)
_LAB = re.compile(r"(?:lab|实验|實驗)[ _-]?\d{1,3}", re.IGNORECASE)
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
    for _ in range(_WRAPPERS):
        children = place.children(folder)
        if pattern is not None and any(download(one, pattern) for one in children):
            return by_names(children, lab, pattern), around
        if pattern is None and any(one.name == METADATA for one in children):
            return _gradescope(place, folder, children, lab), around
        if _is_single(place, children, lab):
            return None, ""
        if pattern is None and _told(children):
            return by_names(children, lab, None), around
        submitted = [one for one in children if one.name == "submitted"]
        if (folder.rsplit("/", 1)[-1] or place.name) == "submitted" and not _packed(children):
            return _nbgrader(place, children, lab, pattern), around
        if submitted and _STEPS.issuperset(one.name for one in _folders(children)):
            folder = submitted[0].path
            continue
        if not _several(place, children, lab) and (ours := _of_course(place, children, lab)):
            best = min(ours, key=lambda one: standing(one.name, lab.name))
            if standing(best.name, lab.name) is FolderRank.OTHER:
                return None, ""  # somebody's folders of other labs
            folder, course = best.path, True
            continue
        folders = _folders(children)
        if len(folders) != 1 or _packed(children) or not _holds_class(place, folders[0], lab):
            break
        folder = around = folders[0].path
    if (course or not place.on_disk) and not _several(place, children, lab):
        return None, ""  # one archive, or folders of the course, and nothing speaks for a class
    return by_names(children, lab, pattern), around


def _of_course(place: ClassFolder, children: Iterable[Found], lab: Lab) -> list[Found]:
    """The course's own folders among these: ``labs``, or those of labs by name or id."""
    names = {path.parent.name for path in lab.folder.parent.glob("*/lab.toml")} | {lab.name}

    def of_labs(folders: Iterable[Found]) -> list[Found]:
        return [one for one in folders if one.name in names or _LAB.fullmatch(one.name)]

    folders = _folders(children)
    labs = [one for one in folders if one.name == "labs"]
    return [one for one in labs if of_labs(_folders(_listed(place, one)))] or of_labs(folders)


def _listed(place: ClassFolder, folder: Found) -> list[Found]:
    """The children of somebody's folder; that it cannot be listed is said when it is read."""
    try:
        return place.children(folder.path)
    except OSError:
        return []


def _folders(children: Iterable[Found]) -> list[Found]:
    return [one for one in children if one.kind is Kind.FOLDER]


def _packed(children: Iterable[Found]) -> list[Found]:
    return [one for one in children if one.kind is not Kind.FOLDER and PACKED.search(one.name)]


def _holds_class(place: ClassFolder, folder: Found, lab: Lab) -> bool:
    """Return whether a lone folder is a wrapper around a class rather than the one hand-in."""
    children = _listed(place, folder)
    if any(one.name in (METADATA, "submitted") for one in children) or folder.name == "submitted":
        return True
    if any(one.name in lab.files for one in children):
        return False
    if _told(children) or _several(place, children, lab):
        return True
    for one in _of_course(place, children, lab):
        inner = _listed(place, one) if standing(one.name, lab.name) <= FolderRank.ID else []
        if _told(inner) or _several(place, inner, lab):
            return True
    folders = _folders(children)  # one more wrapper, perhaps
    return len(folders) == len(children) == 1 and _told(_listed(place, folders[0]))


def _several(place: ClassFolder, children: list[Found], lab: Lab) -> bool:
    """Say whether two or more children are hand-ins: archives, or folders with the lab's files.

    Or nothing but folders, each around an archive or a notebook and nothing else.
    """
    if len(_packed(children)) + len(_holding(place, children, lab)) > 1:
        return True
    folders = _folders(children)
    return 1 < len(folders) == len(children) and all(
        inner and all(one.kind is Kind.FILE and _BUNDLE.search(one.name) for one in inner)
        for inner in (_listed(place, folder) for folder in folders)
    )


def _holding(place: ClassFolder, children: list[Found], lab: Lab) -> list[Found]:
    """The folders of people: with a file of the lab, there, a folder down, or in a lab's folder.

    Nobody's folder hides those beside it: one with so many inside that looking ends is a hand-in.
    """

    def within(folder: Found, depth: int, looks: Iterator[int]) -> bool:
        if next(looks, None) is None:
            return True
        inner = _listed(place, folder)
        near = depth <= 1 or standing(folder.name, lab.name) <= FolderRank.NUMBER
        if near and any(one.name in lab.files for one in inner):
            return True
        return depth < _WRAPPERS and any(within(one, depth + 1, looks) for one in _folders(inner))

    course = _of_course(place, children, lab)
    theirs = [one for one in _folders(children) if one not in course]
    return [one for one in theirs if within(one, 0, iter(range(_LOOKS)))]


def _is_single(place: ClassFolder, children: list[Found], lab: Lab) -> bool:
    """Return whether a folder is one hand-in rather than a class.

    A stray copy of a lab's file must not hide the class beside it: where two or more of the
    folders hold the lab's files themselves, or a loose one bears somebody's name, it is a class.
    """
    loose = [one.name for one in children if one.kind not in (Kind.FOLDER, Kind.SYMLINK)]
    if any(file in loose for file in lab.files):
        told = [download(one, None) for one in children]
        theirs = any(one is not None and one.file in lab.files for one in told)
        return not theirs and not _several(place, children, lab)
    python = any(name.lower().endswith((".py", ".ipynb")) for name in loose)
    whole = len(loose) == len(children) and not _packed(children)
    return python and whole and not _told(children)


def _told(children: Iterable[Found]) -> bool:
    """Return whether a course system has named a child."""
    return any(download(one, None) is not None for one in children)


def _gradescope(place: ClassFolder, folder: str, children: list[Found], lab: Lab) -> Layout:
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
    place: ClassFolder, students: list[Found], lab: Lab, pattern: re.Pattern[str] | None
) -> Layout:
    """``submitted/<student>/<assignment>/``; of several assignments, the one called as the lab."""
    layout = by_names(students, lab, pattern)
    folders = {one.path: one for one in _folders(students)}  # never through a link
    hand_ins = []
    for one in layout.hand_ins:
        path = one.pieces[0].path
        inner = _folders(_listed(place, folders[path])) if path in folders else []
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

"""The children of a class folder, grouped into hand-ins by what their names tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from autograder.course.records import Lab, Message, Student
from autograder.intake import download_names
from autograder.intake.download_names import Download
from autograder.intake.entry import Piece
from autograder.intake.names import readable, shown
from autograder.intake.resubmitted import newest
from autograder.intake.tree import PACKED, Found, Kind


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
    """What the name of a child of the class tells, by the pattern if there is one."""
    if pattern is not None:
        told = download_names.by_pattern(pattern, readable(one.name))
        return told or download_names.by_pattern(pattern, _stem(one))
    whole = one.kind is Kind.FOLDER or PACKED.search(one.name) is not None
    told = download_names.parse(readable(one.name))
    if whole and (told is None or told.group[0] == "chinese"):
        # What follows in `学号_姓名_lab2.zip` is no file of a hand-in, but names one of its own.
        told = download_names.parse(_stem(one))
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

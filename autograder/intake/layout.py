"""Which hand-ins a class folder or class archive holds, by the manners of course systems."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from autograder.course.records import Lab, Message
from autograder.intake import gradescope
from autograder.intake.class_folder import ClassFolder
from autograder.intake.hand_in_places import HandInPlace, Layout, by_names, download, piece, plain
from autograder.intake.names import readable
from autograder.intake.timestamps import iso
from autograder.intake.tree import MAX_PACKED_BYTES, METADATA, PACKED, TIMESTAMP, Found, Kind
from autograder.sandbox.fence import Fence, FenceError

_WRAPPERS = 4  # folders around the class that are gone into
_STEPS = {"source", "release", "submitted", "autograded", "feedback", "solution", "downloaded"}


def survey(place: ClassFolder, lab: Lab, pattern: re.Pattern[str] | None) -> Layout | None:
    """The hand-ins of a class, or None if ``place`` itself is a single one. Raises OSError."""
    folder = ""
    for _ in range(_WRAPPERS):
        children = place.children(folder)
        if pattern is not None and any(download(one, pattern) for one in children):
            return by_names(children, lab, pattern)
        if pattern is None and any(one.name == METADATA for one in children):
            return _gradescope(place, folder, children, lab)
        if _is_single(place, children, lab):
            return None
        if pattern is None and _told(children):
            return by_names(children, lab, None)
        submitted = [one for one in children if one.name == "submitted"]
        if (folder.rsplit("/", 1)[-1] or place.name) == "submitted" and not _packed(children):
            return _nbgrader(place, children, lab, pattern)
        if submitted and _STEPS.issuperset(one.name for one in _folders(children)):
            folder = submitted[0].path
            continue
        folders = _folders(children)
        if len(folders) != 1 or _packed(children) or not _holds_class(place, folders[0], lab):
            break
        folder = folders[0].path
    if not place.on_disk and not _several(place, children, lab):
        return None  # the instructor named one archive, and nothing speaks for a class
    return by_names(children, lab, pattern)


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
    """Whether a lone folder is a wrapper around a class rather than the one hand-in."""
    children = _listed(place, folder)
    if any(one.name in (METADATA, "submitted") for one in children) or folder.name == "submitted":
        return True
    if any(one.name in lab.files for one in children):
        return False
    if _told(children) or _several(place, children, lab):
        return True
    folders = _folders(children)  # one more wrapper, perhaps
    return len(folders) == len(children) == 1 and _told(_listed(place, folders[0]))


def _several(place: ClassFolder, children: list[Found], lab: Lab) -> bool:
    """Whether two or more children are hand-ins: archives, or folders with the lab's files."""
    return len(_packed(children)) + len(_holding(place, children, lab)) > 1


def _holding(place: ClassFolder, children: list[Found], lab: Lab) -> list[Found]:
    """The folders with a file of the lab, or with one a folder further down."""

    def within(folder: Found, depth: int) -> bool:
        inner = _listed(place, folder)
        return any(one.name in lab.files for one in inner) or (
            depth > 0 and any(within(one, depth - 1) for one in _folders(inner))
        )

    return [folder for folder in _folders(children) if within(folder, 1)]


def _is_single(place: ClassFolder, children: list[Found], lab: Lab) -> bool:
    """Whether a folder is one hand-in rather than a class.

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
    """Whether a course system has named a child."""
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


def metadata(data: bytes) -> dict[str, gradescope.Submitted]:
    """The metadata of an export, read in a process of its own: libyaml nests without an end.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        with Fence() as fence:
            return fence(gradescope.parse, data)
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

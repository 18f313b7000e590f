"""Which hand-ins a class folder or class archive holds, by the manners of course systems."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from autograder.course.records import Lab, Message
from autograder.intake import gradescope
from autograder.intake.choose import Standing, standing
from autograder.intake.class_folder import ClassFolder
from autograder.intake.hand_in_places import HandInPlace, Layout, by_names, download, piece, plain
from autograder.intake.names import readable
from autograder.intake.timestamps import iso
from autograder.intake.tree import MAX_PACKED_BYTES, METADATA, PACKED, TIMESTAMP, Found, Kind
from autograder.sandbox.fence import Fence, FenceError

_WRAPPERS = 8  # folders around the class that are gone into
_LOOKS = 2000  # folders that are listed to tell a class from a single hand-in
_LAB = re.compile(r"(?:lab|实验|實驗)[ _-]?\d{1,3}", re.IGNORECASE)
_STEPS = {"source", "release", "submitted", "autograded", "feedback", "solution", "downloaded"}


def survey(place: ClassFolder, lab: Lab, pattern: re.Pattern[str] | None) -> Layout | None:
    """The hand-ins of a class, or None if ``place`` itself is a single one. Raises OSError."""
    folder, course = "", False
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
        if not _several(place, children, lab) and (ours := _of_course(place, children, lab)):
            best = min(ours, key=lambda one: standing(one.name, lab.name))
            if standing(best.name, lab.name) is Standing.OTHER:
                return None  # somebody's folders of other labs
            folder, course = best.path, True
            continue
        folders = _folders(children)
        if len(folders) != 1 or _packed(children) or not _holds_class(place, folders[0], lab):
            break
        folder = folders[0].path
    if (course or not place.on_disk) and not _several(place, children, lab):
        return None  # one archive, or folders of the course, and nothing speaks for a class
    return by_names(children, lab, pattern)


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
    """Whether a lone folder is a wrapper around a class rather than the one hand-in."""
    children = _listed(place, folder)
    if any(one.name in (METADATA, "submitted") for one in children) or folder.name == "submitted":
        return True
    if any(one.name in lab.files for one in children):
        return False
    if _told(children) or _several(place, children, lab):
        return True
    for one in _of_course(place, children, lab):
        inner = _listed(place, one) if standing(one.name, lab.name) <= Standing.ID else []
        if _told(inner) or _several(place, inner, lab):
            return True
    folders = _folders(children)  # one more wrapper, perhaps
    return len(folders) == len(children) == 1 and _told(_listed(place, folders[0]))


def _several(place: ClassFolder, children: list[Found], lab: Lab) -> bool:
    """Whether two or more children are hand-ins: archives, or folders with the lab's files."""
    return len(_packed(children)) + len(_holding(place, children, lab)) > 1


def _holding(place: ClassFolder, children: list[Found], lab: Lab) -> list[Found]:
    """The folders of people: with a file of the lab, there, a folder down, or in a lab's folder."""
    looks = iter(range(_LOOKS))

    def within(folder: Found, depth: int) -> bool:
        inner = _listed(place, folder) if next(looks, None) is not None else []
        near = depth <= 1 or standing(folder.name, lab.name) <= Standing.NUMBER
        if near and any(one.name in lab.files for one in inner):
            return True
        return depth < _WRAPPERS and any(within(one, depth + 1) for one in _folders(inner))

    course = _of_course(place, children, lab)
    return [one for one in _folders(children) if one not in course and within(one, 0)]


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

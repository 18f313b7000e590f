"""Tell a class from a single hand-in, folder or archive, by what lies in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from autograder.course.records import Lab, Message
from autograder.intake.choose import FolderRank, standing
from autograder.intake.class_folder import ClassFolder, opened_zip
from autograder.intake.names import CLASS_DIGITS, is_meant, readable, some
from autograder.intake.tree import METADATA, PACKED, FoundPath, Kind, RefusedError
from autograder.intake.whose import download, downloads

WRAPPERS = 8  # folders around the class that are gone into
_LOOKS = 2000  # folders of one hand-in that are listed to tell a class from a single one
_BUNDLE = re.compile(rf"\.ipynb$|{PACKED.pattern}", re.IGNORECASE)
_ENOUGH = 200  # names of one folder that are looked at
# Names that students give to parts of their work, and to copies of it.
_PART = re.compile(
    r"(?:my[ _-]?)?(?:src|sources?|codes?|notebooks?|docs?|reports?|tests?|data|old|new|final|"
    r"backups?|copy|figures?|images?|img|outputs?|results?|part|work|v|attempt|labs?|given)"
    r"[ _-]*\d{0,3}|\d{1,3}|"
    r".*(?:代码|源码|报告|截图|图片|备份|数据|附件|笔记本|第.次提交|实验).{0,3}",
    re.IGNORECASE | re.DOTALL,
)
_SECTION = re.compile(
    r"(?:.*[ _-])?(?:section|sec|class|tutorial)s?[ _-]*\w{0,3}|.*班", re.I | re.S
)
_COPY = re.compile(r"lab|hw|homework|final|report|实验|作业|报告", re.IGNORECASE)
_LAB = re.compile(r"(?:lab|实验|實驗)[ _-]?\d{1,3}", re.IGNORECASE)


def of_course(place: ClassFolder, children: Iterable[FoundPath], lab: Lab) -> list[FoundPath]:
    """The course's own folders among these: ``labs``, or those of labs by name or id."""
    names = {path.parent.name for path in lab.folder.parent.glob("*/lab.toml")} | {lab.name}

    def of_labs(folders: Iterable[FoundPath]) -> list[FoundPath]:
        return [one for one in folders if one.name in names or _LAB.fullmatch(one.name)]

    folders = folders_in(children)
    labs = [one for one in folders if one.name == "labs"]
    return [one for one in labs if of_labs(folders_in(listed(place, one)))] or of_labs(folders)


def listed(place: ClassFolder, folder: FoundPath) -> list[FoundPath]:
    """The children of somebody's folder; that it cannot be listed is said when it is read."""
    try:
        return place.children(folder.path)
    except OSError:
        return []


def folders_in(children: Iterable[FoundPath]) -> list[FoundPath]:
    return [one for one in children if one.kind is Kind.FOLDER]


def packed(children: Iterable[FoundPath]) -> list[FoundPath]:
    return [one for one in children if one.kind is not Kind.FOLDER and PACKED.search(one.name)]


def holds_class(place: ClassFolder, folder: FoundPath, lab: Lab) -> bool:
    """Return whether a lone folder is a wrapper around a class rather than the one hand-in."""
    children = listed(place, folder)
    if any(one.name in (METADATA, "submitted") for one in children) or folder.name == "submitted":
        return True
    if any(one.name in lab.files for one in children):
        return len(_people(place, children, lab)) > 1
    if is_told(children) or several(place, children, lab):
        return True
    for one in of_course(place, children, lab):
        inner = listed(place, one) if standing(one.name, lab.name) <= FolderRank.ID else []
        if is_told(inner) or several(place, inner, lab):
            return True
    folders = folders_in(children)  # one more wrapper, perhaps
    return len(folders) == len(children) == 1 and is_told(listed(place, folders[0]))


def several(place: ClassFolder, children: list[FoundPath], lab: Lab) -> bool:
    """Say whether two or more children are hand-ins: archives, or folders with the lab's files.

    Or folders and archives that tell of different people. Or nothing but folders: each around an
    archive or a notebook and nothing else, or some with work and none with a name that students
    give to parts of theirs.
    """
    if len(packed(children)) + len(holding(place, children, lab)) > 1:
        return True
    if len(_people(place, children, lab)) > 1:
        return True
    folders = folders_in(children)
    if not 1 < len(folders) == len(children):
        return False
    if not any(_PART.fullmatch(one.name) for one in folders):
        return len(working(place, children, lab)) > 1
    return all(
        inner and all(one.kind is Kind.FILE and _BUNDLE.search(one.name) for one in inner)
        for inner in (listed(place, folder) for folder in folders)
    )


def _people(place: ClassFolder, children: Iterable[FoundPath], lab: Lab) -> set[str]:
    """The people of whom folders and archives tell, those in sections too."""
    inner = [it for one in children for it in section(place, one, lab) or [one]]
    return {who for one in (*folders_in(inner), *packed(inner)) if (who := _person(one))}


def _person(one: FoundPath) -> str:
    """The id of whom a name surely tells, else empty: not a date's, nor that of 截图01."""
    told = download(one, None)
    if told is None or told.group[0] == "dated":
        return ""
    sure = told.group[0] != "chinese" or len(_number(one)) > CLASS_DIGITS
    return told.student.id if sure else ""


def working(place: ClassFolder, children: list[FoundPath], lab: Lab) -> list[FoundPath]:
    """The folders that may be people's and hold work: the lab's files, archives, notebooks."""
    if of_course(place, children, lab):
        return []

    def is_work(one: FoundPath) -> bool:
        meant = _BUNDLE.search(one.name) or any(is_meant(one.name, file) for file in lab.files)
        return one.kind is Kind.FILE and bool(meant)

    theirs = [one for one in folders_in(children) if not _PART.fullmatch(one.name)]
    held = holding(place, theirs, lab)
    return [one for one in theirs if one in held or any(map(is_work, listed(place, one)[:_ENOUGH]))]


def doubts(place: ClassFolder, lab: Lab) -> list[Message]:
    """Say what speaks for a class in a source that was taken for the hand-in of one student."""
    children = place.children("")
    for _ in range(WRAPPERS):
        if len(children) != 1 or not folders_in(children):
            break
        children = listed(place, children[0])
    notebooks = [one for one in children if one.name.lower().endswith(".ipynb")]
    ends = tuple(f"_{file}" for file in lab.files)  # zs_attention.py, ls_attention.py
    sources = [one for one in children if one.name.endswith(ends)]
    if any(one.name in lab.files for one in children):  # what lies loose beside it is a try
        notebooks, sources = [], []
    found = max(working(place, children, lab), notebooks, sources, key=len)
    if len(found) < 2:
        return []
    names = some([readable(one.name) for one in found])
    return [Message("intake.one_student", {"path": readable(place.root.name), "found": names})]


def section(place: ClassFolder, one: FoundPath, lab: Lab) -> list[FoundPath]:
    """The children of a folder that is called a section and holds hand-ins; else none."""
    called = _is_section(readable(one.name), one)
    if one.kind is not Kind.FOLDER or not (called or _names_class(one)):
        return []
    inner = listed(place, one)
    whole = [*folders_in(inner), *packed(inner)]
    if any(it.name in lab.files or it.name == METADATA for it in inner):
        return []
    if not called:  # 计科2101 is a class where those in it have longer numbers
        numbered = sum(len(_number(it)) > CLASS_DIGITS for it in whole)
        return inner if numbered and (numbered > 1 or len(whole) == 1) else []
    named = whole and not any(_is_copy(it, lab) for it in whole)
    return inner if named or is_told(inner) else []


def _is_section(name: str, one: FoundPath) -> bool:
    """Return whether a name is a section's: in 学号_姓名_计科2班 the class is only told, too."""
    return _SECTION.fullmatch(name) is not None and not _person(one)


def _number(one: FoundPath) -> str:
    """Return the digits of the number beside a Chinese name; empty where there is none."""
    told = download(one, None)
    chinese = told is not None and told.group[0] == "chinese"
    return "".join(filter(str.isdigit, told.student.id)) if told is not None and chinese else ""


def _names_class(one: FoundPath) -> bool:
    """Say whether the number is as short as that of a class: ``计科2101``."""
    return 2 <= len(_number(one)) <= CLASS_DIGITS


def sections(place: ClassFolder, one: FoundPath, lab: Lab) -> bool:
    """Say whether what goes as one student's may be a section: by its name, or as a class is."""
    if one.kind is not Kind.FOLDER:
        return _is_section(PACKED.sub("", readable(one.name)), one) or (
            _names_class(one) and _packs_several(place, one)
        )
    inner = listed(place, one)
    if any(it.name in lab.files for it in inner):
        return False
    whole = [*working(place, inner, lab), *packed(inner)]
    return sum(not _is_copy(it, lab) for it in whole) > 1


def _packs_several(place: ClassFolder, one: FoundPath) -> bool:
    """Say whether a zip on disk has folders or archives with the numbers of several students."""
    if not place.on_disk or not one.name.lower().endswith(".zip"):
        return False  # others, whatever they are called, are read from end to end to list them
    try:
        inside = opened_zip(place.root / one.path)
    except RefusedError:
        return False
    children = inside.children("")
    while len(children) == 1 and folders_in(children):
        children = inside.children(children[0].path)
    numbers = {_number(it) for it in children[:_ENOUGH]}
    return sum(len(number) > CLASS_DIGITS for number in numbers) > 1


def _is_copy(one: FoundPath, lab: Lab) -> bool:
    name = PACKED.sub("", readable(one.name))
    other = standing(name, lab.name) is not FolderRank.NONE
    return other or _PART.fullmatch(name) is not None or _COPY.search(name) is not None


def holding(place: ClassFolder, children: list[FoundPath], lab: Lab) -> list[FoundPath]:
    """The folders of people: with a file of the lab, there, a folder down, or in a lab's folder.

    Nobody's folder hides those beside it: one with so many inside that looking ends is a hand-in.
    """

    def within(folder: FoundPath, depth: int, looks: Iterator[int]) -> bool:
        if next(looks, None) is None:
            return True
        inner = listed(place, folder)
        near = depth <= 1 or standing(folder.name, lab.name) <= FolderRank.NUMBER
        if near and any(one.name in lab.files for one in inner):
            return True
        return depth < WRAPPERS and any(within(one, depth + 1, looks) for one in folders_in(inner))

    course = of_course(place, children, lab)
    theirs = [one for one in folders_in(children) if one not in course]
    return [one for one in theirs if within(one, 0, iter(range(_LOOKS)))]


def is_single(place: ClassFolder, children: list[FoundPath], lab: Lab) -> bool:
    """Return whether a folder is one hand-in rather than a class.

    A stray copy of a lab's file must not hide the class beside it: where folders and archives
    tell of different people, two or more of the folders hold the lab's files themselves (or any
    work, where a file of the lab is missing), or a loose one bears somebody's name, it is a class.
    """
    loose = [one.name for one in children if one.kind not in (Kind.FOLDER, Kind.SYMLINK)]
    if any(file in loose for file in lab.files):
        told = [download(one, None) for one in children]
        theirs = any(one is not None and one.file in lab.files for one in told)
        stray = not set(lab.files).issubset(loose) and len(working(place, children, lab)) > 1
        return not (theirs or stray or several(place, children, lab))
    python = any(name.lower().endswith((".py", ".ipynb")) for name in loose)
    whole = len(loose) == len(children) and not packed(children)
    return python and whole and not is_told(children)


def is_told(children: Iterable[FoundPath]) -> bool:
    """Return whether a name of a child tells whose it is."""
    return any(it is not None for _, it in downloads(list(children), None))

"""The owner of a child of a class folder, by its name and by the names beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from autograder.course import course_file
from autograder.course.records import Student
from autograder.intake import names
from autograder.intake.names import Download, readable
from autograder.intake.tree import PACKED, FoundPath, Kind

_AGAIN = re.compile(r"-\d{1,3}(?=\.[^.]+$)")
_ID = re.compile(r"(?<!\d)\d{5,20}(?!\d)")
_DATED = re.compile(r"(?<!\d)\d{8}(?:\d{4}|\d{6})?(?!\d)")
NamedPath = tuple[FoundPath, Download | None]


def stem(one: FoundPath) -> str:
    """The name without the ending of an archive."""
    return readable(one.name) if one.kind is Kind.FOLDER else PACKED.sub("", readable(one.name))


def _is_whole(one: FoundPath) -> bool:
    return one.kind is Kind.FOLDER or PACKED.search(one.name) is not None


def download(
    one: FoundPath, pattern: re.Pattern[str] | None, *, dates: bool = True
) -> Download | None:
    """Return what the name of a child of the class tells, by the pattern if there is one."""
    if pattern is not None:
        told = names.by_pattern(pattern, readable(one.name))
        return told or names.by_pattern(pattern, stem(one))
    whole = _is_whole(one)
    told = names.parse(readable(one.name), dates=dates)
    if whole and (told is None or told.group[0] == "chinese"):
        # What follows in `学号_姓名_lab2.zip` is no file of a hand-in, but names one of its own.
        told = names.parse(stem(one), dates=dates)
        if told is None:
            return None
        instead = told.instead and replace(told.instead, file="", rest=told.instead.file)
        return replace(told, file="", rest=told.file, instead=instead)
    # A loose file whose name names a person but no file is nobody's.
    return told if told is not None and (whole or told.file) else None


def downloads(children: Sequence[FoundPath], pattern: re.Pattern[str] | None) -> list[NamedPath]:
    """Return what the names of the children tell, where they tell it of different people."""
    if pattern is not None:
        return [(one, download(one, pattern)) for one in children]
    told = _told(children, dates=True)
    if any(_DATED.search(one.name) for one in children):
        told = _with_ids(told, _told(children, dates=False))
    return _in_form(_without_numbers(_without_classes(told)))


def _told(children: Sequence[FoundPath], *, dates: bool) -> list[NamedPath]:
    told = [(one, download(one, None, dates=dates)) for one in children]
    notebooks = _notebooks([one for one, it in told if it is None], dates=dates)
    return [(one, it or notebooks.get(one)) for one, it in told]


def _notebooks(loose: list[FoundPath], *, dates: bool) -> dict[FoundPath, Download]:
    """Tell whose loose notebooks are where all are called by a number, or by number and name.

    A number alone may be the date of a version, unless others that are no date are of its kind.
    """
    books = [one for one in loose if one.kind is Kind.FILE and one.name.lower().endswith(".ipynb")]
    stems = {one: readable(one.name).rpartition(".")[0] for one in books}
    numbers = {one: _ID.findall(name) for one, name in stems.items()}
    sure = {names.kind(it) for its in numbers.values() for it in its if not names.iso(it)}
    known: dict[FoundPath, Download] = {}
    for one, name in stems.items():
        told = names.parse(name, dates=dates)
        if told is None and len(numbers[one]) == 1:
            (number,) = numbers[one]
            if not names.iso(number) or names.kind(number) in sure:
                told = Download(number, ("notebook", number), Student(number))
        if told is None:
            return {}
        known[one] = replace(told, file=readable(one.name), instead=None)
    return known if len({it.group for it in known.values()}) > 1 else {}


def _with_ids(told: list[NamedPath], anew: list[NamedPath]) -> list[NamedPath]:
    """Take numbers that read as dates for ids, as ``anew`` does, unless the class says otherwise.

    It is asked by itself of numbers that only add partners, and of those of which others are ids:
    as long, and of the same year.
    """
    before = {student for _, it in told for student in _students(it)}
    after = {student for _, it in anew for student in _students(it)}
    sure = {one for one in after if one in before or not names.iso(one.id)}
    kinds = {names.kind(one.id) for one in sure}

    def question(was: Download | None, now: Download) -> tuple[bool, bool]:
        alike = all(one in sure or names.kind(one.id) in kinds for one in _students(now))
        return was is not None and was.student == now.student, alike

    asked: dict[tuple[bool, bool], dict[FoundPath, tuple[Download | None, Download]]] = {}
    for (one, was), (_, now) in zip(told, anew, strict=True):
        if now is not None and not sure.issuperset(_students(now)):
            asked.setdefault(question(was, now), {})[one] = (was, now)
    dates = {
        one for key, its in asked.items() if _are_dates([*its.values()], sure, *key) for one in its
    }
    return [
        (one, was if now is None or one in dates else now)
        for (one, was), (_, now) in zip(told, anew, strict=True)
    ]


def _students(it: Download | None) -> tuple[Student, ...]:
    return (it.student, *it.partners) if it is not None else ()


def _are_dates(
    read: list[tuple[Download | None, Download]], sure: set[Student], joined: bool, alike: bool
) -> bool:
    """Say whether the class makes dates of the numbers that only the second readings have.

    It does where one stands beside several names, or one name beside several, and where everybody
    has a number of another kind beside it. Where others like it are ids, most have to say so.
    """
    uses = {(now.student, one) for _, now in read for one in _students(now) if one not in sure}
    students = {one for _, one in uses}
    ids = {one.id for one in students}
    few = min(len(ids), len({one.name for one in students}))
    if alike:
        return 2 * few < len(uses) or (joined and len(ids) < len(students))
    own = {it.student for it, now in read if it and it.student.name == now.student.name}
    beside = bool(own) and len({one.id for one in own}) == len(own)
    return beside or few < len(uses)


def _without_classes(told: list[NamedPath]) -> list[NamedPath]:
    """Read 计科2101_张三 as a class and a name where that tells of more people than otherwise."""
    either = [it for _, it in told if it is not None and it.instead is not None]
    behind = {it.instead.student.name for it in either if it.instead is not None}
    if len(behind) <= len({it.student.name for it in either}):
        return told
    return [
        (one, it.instead if it is not None and it.instead is not None else it) for one, it in told
    ]


def _without_numbers(told: list[NamedPath]) -> list[NamedPath]:
    """Nothing is Canvas's where one user has a file twice, or archives of so many names.

    Canvas gives the number of a file once, and another name to a file that comes again. Its users
    have names of their own; where most of them have one archive, some may have many.
    """
    groups: dict[tuple[str, ...], list[Download]] = {}
    for _, it in told:
        if it is not None and it.group[0] == "canvas":
            groups.setdefault(it.group, []).append(it)
    most = 1 if len(groups) == 1 else 2
    twice: set[tuple[str, ...]] = set()
    many: set[tuple[str, ...]] = set()
    for group, members in groups.items():
        files = [it.file for it in members]
        if len(set(files)) < len(files):
            twice.add(group)
        named = {PACKED.sub("", _AGAIN.sub("", file)) for file in files if PACKED.search(file)}
        if len(named) > most:
            many.add(group)
    called = {members[0].student.name or group for group, members in groups.items()}
    if len(called) == len(groups) and 2 * len(many) < len(groups) and not twice:
        many = set()
    others = twice | many
    return [(one, None if it is not None and it.group in others else it) for one, it in told]


def _in_form(told: list[NamedPath]) -> list[NamedPath]:
    """Read names by the form that `make submit` gives them where all that tell nothing have it.

    The name in it is as somebody typed it, and tells nobody from others: only the number does.
    """
    known: dict[FoundPath, Download] = {}
    for one, it in told:
        if it is None and _is_whole(one):
            match = _form().fullmatch(stem(one))
            if match is None or not _ID.search(match["id"]):
                return told
            number, name = match["id"], match.groupdict().get("name") or ""
            person = f"{number}_{name}" if name else number
            known[one] = Download(person, ("form", number, name), Student(number))
    groups = {it.group for it in known.values()}
    ids = {it.student.id for it in known.values()}
    others = {it.student.id for _, it in told if it is not None}
    if len(ids) < len(groups) or ids & others or len(ids | others) < 2:
        return told  # the number of a class, or a lone name
    return [(one, it or known.get(one)) for one, it in told]


@cache
def _form() -> re.Pattern[str]:
    try:
        form = course_file.zip_pattern()
    except course_file.CourseError:
        form = course_file.ZIP_NAME
    parts = {"{id}": rf"(?P<id>{names.NUMBER})", "{name}": r"(?P<name>\D+?)", "{lab}": r"\d+"}
    pieces = re.split(r"(\{\w+\})", form.removesuffix(".zip"))
    text = "".join(parts.pop(one, ".+?") if one[:1] == "{" else re.escape(one) for one in pieces)
    return re.compile(rf"{text}(?:[ _-]*\(?\d{{1,3}}\)?)?", re.IGNORECASE)  # and copies of it

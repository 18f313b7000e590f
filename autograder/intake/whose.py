"""The owner of a child of a class folder, by its name and by the names beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from autograder.course.records import Student
from autograder.intake import names
from autograder.intake.names import Download, readable
from autograder.intake.tree import PACKED, FoundPath, Kind

_AGAIN = re.compile(r"-\d{1,3}$")
_ID = re.compile(r"(?<!\d)\d{5,20}(?!\d)")
NamedPath = tuple[FoundPath, Download | None]


def stem(one: FoundPath) -> str:
    """The name without the ending of an archive."""
    return readable(one.name) if one.kind is Kind.FOLDER else PACKED.sub("", readable(one.name))


def download(one: FoundPath, pattern: re.Pattern[str] | None) -> Download | None:
    """Return what the name of a child of the class tells, by the pattern if there is one."""
    if pattern is not None:
        told = names.by_pattern(pattern, readable(one.name))
        return told or names.by_pattern(pattern, stem(one))
    whole = one.kind is Kind.FOLDER or PACKED.search(one.name) is not None
    told = names.parse(readable(one.name))
    if whole and (told is None or told.group[0] == "chinese"):
        # What follows in `学号_姓名_lab2.zip` is no file of a hand-in, but names one of its own.
        told = names.parse(stem(one))
        if told is None:
            return None
        instead = told.instead and replace(told.instead, file="", rest=told.instead.file)
        return replace(told, file="", rest=told.file, instead=instead)
    # A loose file whose name names a person but no file is nobody's.
    return told if told is not None and (whole or told.file) else None


def downloads(
    children: Sequence[FoundPath], pattern: re.Pattern[str] | None, files: Sequence[str] = ()
) -> list[NamedPath]:
    """Return what the names of the children tell, where they tell it of different people.

    ``files`` are the lab's.
    """
    told = [(one, download(one, pattern)) for one in children]
    if pattern is not None:
        return told
    notebooks = _notebooks([one for one, it in told if it is None])
    told = [(one, it or notebooks.get(one)) for one, it in told]
    return _without_numbers(_without_classes(told), files)


def _notebooks(loose: list[FoundPath]) -> dict[FoundPath, Download]:
    """Tell whose loose notebooks are where all are called by a number, or by number and name."""
    known: dict[FoundPath, Download] = {}
    for one in loose:
        name, _, suffix = readable(one.name).rpartition(".")
        if one.kind is Kind.FILE and suffix.lower() == "ipynb":
            told, numbers = names.parse(name), _ID.findall(name)
            if told is None and len(numbers) == 1 and not names.iso(numbers[0]):
                group = ("notebook", numbers[0])
                told = Download(numbers[0], group, Student(numbers[0]))
            if told is None:
                return {}
            known[one] = replace(told, file=readable(one.name), instead=None)
    return known if len({it.group for it in known.values()}) > 1 else {}


def _without_classes(told: list[NamedPath]) -> list[NamedPath]:
    """Read 计科2101_张三 as a class and a name where that tells of more people than otherwise."""
    either = [it for _, it in told if it is not None and it.instead is not None]
    behind = {it.instead.student.name for it in either if it.instead is not None}
    if len(behind) <= len({it.student.name for it in either}):
        return told
    return [
        (one, it.instead if it is not None and it.instead is not None else it) for one, it in told
    ]


def _without_numbers(told: list[NamedPath], files: Sequence[str]) -> list[NamedPath]:
    """Nothing is Canvas's where one user has a file twice, or archives of so many names.

    Canvas gives the number of a file once, and another name to a file that comes again. Archives
    that are called as files of the lab are parts of one hand-in, however many.
    """
    groups: dict[tuple[str, ...], list[NamedPath]] = {}
    for one, it in told:
        if it is not None and it.group[0] == "canvas":
            groups.setdefault(it.group, []).append((one, it))
    most = 1 if len(groups) == 1 else 2
    parts = {file.removesuffix(".py") for file in files}
    others: set[str] = set()
    for members in groups.values():
        theirs = [it.file for _, it in members if it is not None]
        archives = {_AGAIN.sub("", PACKED.sub("", file)) for file in theirs if PACKED.search(file)}
        others_named = sum(one.lower() not in parts for one in archives)
        if len(set(theirs)) < len(theirs) or others_named > most:
            others.update(one.path for one, _ in members)
    return [(one, None if one.path in others else it) for one, it in told]

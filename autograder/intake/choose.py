"""Chooses the path of a hand-in that is a lab's file; names what lies there if none is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from functools import lru_cache

from autograder.course.records import Lab, Message
from autograder.intake.names import is_lookalike, is_meant, shown
from autograder.intake.tree import MAX_DEPTH, PACKED, FoundPath, Kind, RefusedError

_LISTED = 5  # names shown in a message
_NUMBER = re.compile(r"0{0,3}(?P<number>\d{1,4})")
_ID = re.compile(rf"(?:lab|实验|實驗)[\W_]*{_NUMBER.pattern}(?P<more>\D.*)?", re.DOTALL)


class FolderRank(IntEnum):
    """Ranks of a folder by its name, seen from a lab, the best first."""

    NAME = 0  # lab2_qwen3_block
    ID = 1  # lab2
    NUMBER = 2  # 2
    NONE = 3
    OTHER = 4  # lab1_foundations, or what all labs share


Rank = tuple[FolderRank, int, int]


@lru_cache(maxsize=4096)
def standing(folder: str, lab: str) -> FolderRank:
    """Return how a folder, or an archive, of this name stands to the lab of that name."""
    name = unicodedata.normalize("NFKC", PACKED.sub("", folder)).casefold().strip()
    if name == lab.casefold():
        return FolderRank.NAME
    if name == "given":
        return FolderRank.OTHER
    number = re.search(r"\d+", lab)
    if match := _ID.fullmatch(name):
        if number is None or int(match["number"]) != int(number[0]):
            return FolderRank.OTHER
        return FolderRank.NONE if match["more"] else FolderRank.ID
    match = _NUMBER.fullmatch(name)
    same = match and number and int(match["number"]) == int(number[0])
    return FolderRank.NUMBER if same else FolderRank.NONE


def rank(one: FoundPath, lab: Lab) -> Rank | None:
    """Return what speaks for a path: its lab's folder, and how far down; the least is best.

    None is too far down: in a folder of the lab, wherever that is, or in the hand-in.
    """
    folders = one.path.split("/")[:-1]
    for steps, folder in enumerate(reversed(folders)):
        found = standing(folder, lab.name)
        if found < FolderRank.NONE:
            return (found, steps, one.depth) if steps <= MAX_DEPTH else None
        if found is FolderRank.OTHER:
            return (found, one.depth, one.depth) if one.depth <= MAX_DEPTH else None
    return (FolderRank.NONE, one.depth, one.depth) if one.depth <= MAX_DEPTH else None


class AbsentError(RefusedError):
    """The file is not there at all; a notebook or an archive beside it may hold it."""

    def __init__(self, reason: Message) -> None:
        Exception.__init__(self, reason.key)
        self.reason = reason


def choose(
    file: str, found: Sequence[FoundPath], lab: Lab, stubs: Collection[FoundPath] = ()
) -> list[FoundPath]:
    """The paths called ``file`` for which most speaks (see :func:`rank`), all regular files.

    Args:
        file: a file of the lab.
        found: all paths of the hand-in.
        lab: its folder comes first, those of other labs last.
        stubs: paths that are known to be stubs in which nobody has worked. What lies beside
            them counts instead, though nothing of other labs.

    Raises:
        AbsentError: none. Files of other labs count as none where the lab's own folder is there.
        RefusedError: one of them is no regular file.
    """
    ranks = {one: rank(one, lab) for one in found}
    usable = [one for one in found if ranks[one] is not None or one.kind is Kind.OUTSIDE]
    if stubs or any(_is_own(one, lab) for one in found):
        usable = [one for one in usable if (ranks[one] or (FolderRank.NONE,))[0] < FolderRank.OTHER]
    usable = [one for one in usable if one not in stubs]
    named = [one for one in usable if one.name == file]
    if not any(one.kind not in (Kind.FOLDER, Kind.OUTSIDE) for one in named):
        # Canvas is known to add -1, -2, … to a name that is handed in again.
        stem, _, suffix = file.rpartition(".")
        again = re.compile(rf"{re.escape(stem)}-\d{{1,3}}\.{re.escape(suffix)}")
        named += [one for one in usable if again.fullmatch(one.name) and one.kind is Kind.FILE]
    if not named:
        raise AbsentError(_absent(file, usable).reason)

    def order(one: FoundPath) -> tuple[bool, Rank]:
        outside = (FolderRank.NONE, one.depth, one.depth)
        return one.kind in (Kind.FOLDER, Kind.OUTSIDE), ranks[one] or outside

    best = min(map(order, named))
    chosen = [one for one in named if order(one) == best]
    for one in chosen:
        if one.kind is not Kind.FILE:
            raise RefusedError(one.kind.value, file=shown(one.path))
    return chosen


def _is_own(one: FoundPath, lab: Lab) -> bool:
    """Return whether a path is the lab's own folder, by name or id, or lies in it."""
    folders = one.path.split("/")[: None if one.kind is Kind.FOLDER else -1]
    return any(standing(folder, lab.name) <= FolderRank.ID for folder in folders)


def listed(found: Iterable[FoundPath]) -> str:
    """Some paths for a message."""
    paths = sorted(one.path for one in found)
    return ", ".join(map(shown, paths[:_LISTED])) + (", …" if len(paths) > _LISTED else "")


def _absent(file: str, found: Sequence[FoundPath]) -> RefusedError:
    """Say what is there instead: a wrong name, a link not followed, other Python files."""
    files = [one for one in found if one.kind is Kind.FILE]
    drawn = [one for one in files if is_lookalike(one.name, file)]
    if drawn:
        return RefusedError("lookalike", file=file, found=listed(drawn))
    alike = [one for one in files if is_meant(one.name, file)]
    if alike:
        return RefusedError("wrong_name", file=file, found=listed(alike))
    links = [one for one in found if one.kind is Kind.SYMLINK]
    if links:
        return RefusedError("behind_symlink", file=file, found=listed(links))
    others = [one for one in found if one.name.lower().endswith((".py", ".ipynb"))]
    if others:
        return RefusedError("missing_among", file=file, found=listed(others))
    return RefusedError("missing", file=file)

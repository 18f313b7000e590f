"""Which path of a hand-in is a lab's file; and if none is, what lies there instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autograder.course.records import Message
from autograder.intake.decode import RefusedError
from autograder.intake.names import is_lookalike, is_meant, shown
from autograder.intake.tree import MAX_DEPTH, Found, Kind

_LISTED = 5  # names shown in a message


class AbsentError(RefusedError):
    """The file is not there at all; a notebook or an archive beside it may hold it."""

    def __init__(self, reason: Message) -> None:
        Exception.__init__(self, reason.key)
        self.reason = reason


def choose(file: str, found: Sequence[Found]) -> Found:
    """The shallowest path called ``file``.

    Raises:
        AbsentError: none.
        RefusedError: several equally shallow ones, or one that is no regular file.
    """
    usable = [one for one in found if one.depth <= MAX_DEPTH or one.kind is Kind.OUTSIDE]
    named = [one for one in usable if one.name == file]
    if not any(one.kind not in (Kind.FOLDER, Kind.OUTSIDE) for one in named):
        # Canvas is known to add -1, -2, … to a name that is handed in again.
        stem, _, suffix = file.rpartition(".")
        again = re.compile(rf"{re.escape(stem)}-\d{{1,3}}\.{re.escape(suffix)}")
        named += [one for one in usable if again.fullmatch(one.name) and one.kind is Kind.FILE]
    if not named:
        raise AbsentError(_absent(file, usable).reason)

    def rank(one: Found) -> tuple[bool, int]:
        return one.kind in (Kind.FOLDER, Kind.OUTSIDE), one.depth

    best = min(rank(one) for one in named)
    chosen = [one for one in named if rank(one) == best]
    if len(chosen) > 1:
        raise RefusedError("ambiguous", file=file, found=listed(chosen))
    if chosen[0].kind is not Kind.FILE:
        raise RefusedError(chosen[0].kind.value, file=shown(chosen[0].path))
    return chosen[0]


def listed(found: Iterable[Found]) -> str:
    """Some paths for a message."""
    paths = sorted(one.path for one in found)
    return ", ".join(map(shown, paths[:_LISTED])) + (", …" if len(paths) > _LISTED else "")


def _absent(file: str, found: Sequence[Found]) -> RefusedError:
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

"""The folder that a class is graded into: it belongs to one class and to one run at a time."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from autograder.report.class_lines import whose
from autograder.report.escape import line

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
NAMED = 20  # students in one message


class OutFolderError(ValueError):
    """Nothing may be written there; the text names the folder and the mend."""


@contextlib.contextmanager
def claimed(out: Path) -> Iterator[None]:
    """Make ``out`` and keep other runs from it; the lock ends with this process, however it ends.

    Raises:
        OutFolderError: it cannot be written to, or another run writes to it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(out / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"{out}: {error.strerror}; --out takes a folder to write to"
        raise OutFolderError(text) from None
    try:
        _lock(descriptor, out)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, out: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutFolderError(
            f"{out}: another run is writing there; wait for its end, or give another --out"
        ) from None


def apart(source: Path, out: Path) -> None:
    """Keep reports from being taken for hand-ins by the next run.

    Raises:
        OutFolderError: ``out`` is the folder of hand-ins, or lies in it.
    """
    hand_ins, reports = source.resolve(), out.resolve()
    if hand_ins == reports or hand_ins in reports.parents:
        raise OutFolderError(
            f"{out}: lies in the folder of hand-ins, where the next run would take the reports "
            "for hand-ins; give an --out beside it"
        )


def students(out: Path) -> set[str]:
    """Who stands in ``OUT/class.json``; nobody where that cannot be told."""
    try:
        return whose(out / "class.json")[1]
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def same_class(out: Path, lab: str, present: set[str]) -> None:
    """Keep a class from being overwritten by another one, by a part of it, or by another lab.

    Raises:
        OutFolderError: ``OUT/class.json`` is of another lab, holds students who are not
            ``present``, or cannot be read.
    """
    path = out / "class.json"
    try:
        graded, known = whose(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError):
        raise OutFolderError(
            f"{path}: damaged, or not written by us, so whose scores it held cannot be told; "
            "move it away, or give another --out"
        ) from None
    same_lab(out, graded, lab)
    others = sorted(known - present)
    if others:
        raise OutFolderError(
            f"{path}: holds hand-ins that are not in this class ({named(others)}); "
            "writing here would lose them: give another --out, or delete that file"
        )


def same_lab(out: Path, graded: str, lab: str) -> None:
    """Keep the class of one lab from being overwritten by that of another.

    Raises:
        OutFolderError: ``graded`` and ``lab`` differ.
    """
    if graded != lab:
        raise OutFolderError(
            f"{out / 'class.json'}: a class of {line(str(graded))}, not of {lab}; "
            "give every lab an --out of its own"
        )


def named(students: list[str]) -> str:
    """Students in one line, the first of many."""
    more = f" … (+{len(students) - NAMED})" if len(students) > NAMED else ""
    return ", ".join(map(line, students[:NAMED])) + more

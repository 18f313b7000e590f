"""The folder that a class is graded into: it belongs to one class and to one run at a time."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

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


def same_class(out: Path, students: set[str]) -> None:
    """Keep a class from being overwritten by another one, or by a part of it.

    Raises:
        OutFolderError: ``OUT/class.json`` holds students who are not in this class.
    """
    path = out / "class.json"
    try:
        known = {h["student"] for h in json.loads(path.read_text(encoding="utf-8"))["hand_ins"]}
    except (OSError, ValueError, KeyError, TypeError):
        return  # absent, not one of ours, or broken: nothing to lose
    others = sorted(known - students)
    if others:
        raise OutFolderError(
            f"{path}: holds hand-ins that are not in this class ({named(others)}); "
            "writing here would lose them: give another --out, or delete that file"
        )


def named(students: list[str]) -> str:
    """Students in one line, the first of many."""
    more = f" … (+{len(students) - NAMED})" if len(students) > NAMED else ""
    return ", ".join(map(line, students[:NAMED])) + more

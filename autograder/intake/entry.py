"""A hand-in before it is read: who it is from and where it lies, as small plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from autograder.course.records import Message, Origin


@dataclass(frozen=True)
class Piece:
    """A part of a hand-in: a folder (``name`` is empty) or a file, and what it counts as.

    ``path`` is relative to the entry's folder or archive, with forward slashes.
    """

    path: str
    name: str = ""


@dataclass(frozen=True)
class Entry:
    """One hand-in: its id, where it lies, remarks about its name, where it comes from.

    ``student`` is a safe file name and unique in the class. Without ``pieces``, all of ``path``
    (a folder or an archive) is the hand-in; with them, ``path`` is the folder or the archive of
    the whole class, and they say which part of it. It holds no handle and no content, so it can
    be sent to another process.
    """

    student: str
    path: Path
    notes: tuple[Message, ...] = ()
    origin: Origin = field(default_factory=Origin)
    pieces: tuple[Piece, ...] = ()

"""One archive of a whole class: its table is read once, its members when they are asked for.

A zip is read at random. A packed tar can only be gone through from its start, so one pass keeps
what a window of hand-ins, in the order of their names, may need; grading in that order takes
one pass per 64 MiB of such files, and never holds more.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Protocol

from autograder.intake import archive
from autograder.intake.decode import RefusedError
from autograder.intake.folder import open_regular
from autograder.intake.inflow import Inflow
from autograder.intake.packed import is_tar
from autograder.intake.tar import Member, walk
from autograder.intake.tree import MAX_ENTRIES, Found, Kind, limit_of, member
from autograder.sandbox.fence import untimed

MAX_MEMBERS = 200_000
MAX_DIRECTORY_BYTES = 32 << 20
MAX_UNPACKED_BYTES = 64 << 30
WINDOW_BYTES = 64 << 20


class _Contents(Protocol):
    found: list[Found]

    def read(self, found: Found, shown: str, limit: int) -> bytes: ...


class ClassArchive:
    """The members of an archive by path, in the order of their paths."""

    def __init__(self, contents: _Contents) -> None:
        self._contents = contents
        self.found = contents.found
        self._paths = [one.path for one in self.found]

    def at(self, path: str) -> list[Found]:
        """The members of exactly this path: more than one in an odd archive."""
        start = bisect_left(self._paths, path)
        end = start
        while end < len(self._paths) and self._paths[end] == path:
            end += 1
        return self.found[start:end]

    def under(self, folder: str) -> list[Found]:
        """What lies inside a folder, at any depth ("" is everything).

        Raises:
            RefusedError: more than ``MAX_ENTRIES`` members.
        """
        start, end = self._range(folder)
        if end - start > MAX_ENTRIES and folder:
            raise RefusedError("too_many", limit=MAX_ENTRIES)
        return self.found[start:end]

    def children(self, folder: str) -> list[Found]:
        """The members right in a folder, those too that only their contents tell of."""
        start, end = self._range(folder)
        cut = len(folder) + 1 if folder else 0
        known: dict[str, Found] = {}
        for one in self.found[start:end]:
            if one.kind is Kind.OUTSIDE:
                continue
            name, slash, _ = one.path[cut:].partition("/")
            path = one.path[: cut + len(name)]
            if slash:
                known[path] = Found(path, Kind.FOLDER, one.index)
            else:
                known.setdefault(path, one)
        return list(known.values())

    def read(self, found: Found, shown: str, limit: int) -> bytes:
        """The bytes of a member, called ``shown`` in messages.

        Raises:
            RefusedError: no regular file, too big, packed too tightly, encrypted, or damaged.
        """
        if found.kind is not Kind.FILE:
            raise RefusedError(found.kind.value, file=shown)
        return self._contents.read(found, shown, limit)

    def _range(self, folder: str) -> tuple[int, int]:
        if not folder:
            return 0, len(self._paths)
        return bisect_left(self._paths, folder + "/"), bisect_left(self._paths, folder + "0")


class _Zip:
    def __init__(self, path: Path) -> None:
        self._path = path
        with os.fdopen(open_regular(path, path.name), "rb") as stream:
            found, self._places = archive.table(stream, path.name, MAX_MEMBERS, MAX_DIRECTORY_BYTES)
        self.found = sorted(found, key=lambda one: (one.path, one.index))

    def read(self, found: Found, shown: str, limit: int) -> bytes:
        with os.fdopen(open_regular(self._path, shown), "rb") as stream:
            return archive.take(stream, self._places[found.index], shown, limit)


class _Tar:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._window: dict[int, bytes] = {}
        self._sizes: dict[int, int] = {}
        listed = []
        for index, one in self._walk():
            if index >= MAX_MEMBERS:
                raise RefusedError("too_many", limit=MAX_MEMBERS)
            found = member(one.path, one.kind, index)
            if found is not None:
                listed.append(found)
                self._sizes[index] = one.size
        self.found = sorted(listed, key=lambda one: (one.path, one.index))
        self._order = {one.index: place for place, one in enumerate(self.found)}

    def read(self, found: Found, shown: str, limit: int) -> bytes:
        size = self._sizes[found.index]
        if size > min(limit, limit_of(found.name)):
            raise RefusedError("too_big", file=shown, limit=limit >> 10)
        with self._lock:
            if found.index not in self._window:
                self._window = {}  # before the next is filled: never two
                with untimed():  # the class's archive, not the hand-in, decides how long
                    self._window = self._filled(self._order[found.index])
            return self._window[found.index]

    def _filled(self, start: int) -> dict[int, bytes]:
        """The members that may matter, from a place in the order of paths on."""
        wanted: set[int] = set()
        room = WINDOW_BYTES
        # What is left of the window's room after the last path goes to the first ones.
        for one in self.found[start:] + self.found[:start]:
            size = self._sizes[one.index]
            if one.kind is Kind.FILE and size <= limit_of(one.name):
                room -= size
                if room < 0 and wanted:
                    break
                wanted.add(one.index)
        last = max(wanted)
        window: dict[int, bytes] = {}
        for index, at in self._walk():
            if index in wanted:
                window[index] = at.take()
            if index == last:
                break
        return window

    def _walk(self) -> Iterator[tuple[int, Member]]:
        name = self._path.name
        raw = os.fdopen(open_regular(self._path, name), "rb")
        # Copies of one stub pack as tightly as any bomb: only bytes are counted.
        with closing(Inflow(raw, name, MAX_UNPACKED_BYTES, tight=False)) as stream:
            yield from enumerate(walk(stream, name))


def opened(path: Path) -> ClassArchive:
    """The archive at ``path``, its table read anew only when the file has changed.

    Raises:
        RefusedError: not a zip or tar, damaged, or a cap is passed.
    """
    try:
        told = os.stat(path)
    except OSError as error:
        raise RefusedError("unreadable", file=path.name, text=str(error.strerror)) from None
    return _opened(path, (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns))


@lru_cache(maxsize=2)
def _opened(path: Path, _: tuple[int, ...]) -> ClassArchive:
    with os.fdopen(open_regular(path, path.name), "rb") as stream:
        head = stream.read(512)
    with untimed():
        return ClassArchive(_Tar(path) if is_tar(head, path.name) else _Zip(path))

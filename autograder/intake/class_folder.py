"""The folder, or the archive, of a class as a place that can be listed, one level at a time."""

from __future__ import annotations

import io
import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Protocol

from autograder.intake import archives
from autograder.intake.archives import is_foreign, is_tar
from autograder.intake.names import readable
from autograder.intake.tar import CappedReader, Member, walk
from autograder.intake.tree import (
    MAX_ENTRIES,
    PACKED,
    FoundPath,
    Kind,
    RefusedError,
    ignored,
    limit_of,
    member,
    open_regular,
    read_regular,
)
from autograder.sandbox.fence import untimed

# One archive of a whole class: its table is read once, its members when they are asked for.
#
# A zip is read at random. A packed tar can only be gone through from its start, so one pass keeps
# what a window of hand-ins, in the order of their names, may need; grading in that order takes
# one pass per 64 MiB of such files, and never holds more. A RAR or 7z is unpacked into memory, by
# the same program and under the same caps as one that is a hand-in.

MAX_MEMBERS = 200_000
MAX_DIRECTORY_BYTES = 32 << 20
MAX_UNPACKED_BYTES = 64 << 30
WINDOW_BYTES = 64 << 20


class _Contents(Protocol):
    found: list[FoundPath]

    def read(self, found: FoundPath, shown: str, limit: int) -> bytes: ...


class ClassArchive:
    """The members of an archive by path, in the order of their paths."""

    def __init__(self, contents: _Contents) -> None:
        self._contents = contents
        self.found = contents.found
        self._paths = [one.path for one in self.found]

    def at(self, path: str) -> list[FoundPath]:
        """The members of exactly this path: more than one in an odd archive."""
        start = bisect_left(self._paths, path)
        end = start
        while end < len(self._paths) and self._paths[end] == path:
            end += 1
        return self.found[start:end]

    def under(self, folder: str) -> list[FoundPath]:
        """Return what lies inside a folder, at any depth ("" is everything).

        Raises:
            RefusedError: more than ``MAX_ENTRIES`` members.
        """
        start, end = self._range(folder)
        if end - start > MAX_ENTRIES and folder:
            raise RefusedError("too_many", limit=MAX_ENTRIES)
        return self.found[start:end]

    def children(self, folder: str) -> list[FoundPath]:
        """The members right in a folder, those too that only their contents tell of."""
        start, end = self._range(folder)
        cut = len(folder) + 1 if folder else 0
        known: dict[str, FoundPath] = {}
        for one in self.found[start:end]:
            if one.kind is Kind.OUTSIDE:
                continue
            name, slash, _ = one.path[cut:].partition("/")
            path = one.path[: cut + len(name)]
            if slash:
                known[path] = FoundPath(path, Kind.FOLDER, one.index)
            else:
                known.setdefault(path, one)
        return list(known.values())

    def read(self, found: FoundPath, shown: str, limit: int) -> bytes:
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
    def __init__(self, path: Path, most: int, directory: int) -> None:
        self._path = path
        with os.fdopen(open_regular(path, path.name), "rb") as stream:
            found, self._places = archives.table(stream, path.name, most, directory)
        self.found = sorted(found, key=lambda one: (one.path, one.index))

    def read(self, found: FoundPath, shown: str, limit: int) -> bytes:
        with os.fdopen(open_regular(self._path, shown), "rb") as stream:
            return archives.take(stream, self._places[found.index], shown, limit)


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

    def read(self, found: FoundPath, shown: str, limit: int) -> bytes:
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
        # Copies of one stub pack as tightly as any bomb: only bytes are counted.
        with closing(CappedReader(self._raw(), name, MAX_UNPACKED_BYTES, tight=False)) as stream:
            yield from enumerate(walk(stream, name))

    def _raw(self) -> BinaryIO:
        return os.fdopen(open_regular(self._path, self._path.name), "rb")


class _Foreign(_Tar):
    """A RAR or 7z, as the tar that is made of it."""

    def __init__(self, path: Path) -> None:
        with os.fdopen(open_regular(path, path.name), "rb") as stream:
            self._tar = archives.as_tar(stream, path.name)
        super().__init__(path)

    def _raw(self) -> BinaryIO:
        return io.BytesIO(self._tar)


def opened(path: Path) -> ClassArchive:
    """The archive at ``path``, its table read anew only when the file has changed.

    Raises:
        RefusedError: no archive, damaged, a cap is passed, or nothing here opens a RAR or 7z.
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
        if is_foreign(head):
            return ClassArchive(_Foreign(path))
        if is_tar(head, path.name):
            return ClassArchive(_Tar(path))
        return ClassArchive(_Zip(path, MAX_MEMBERS, MAX_DIRECTORY_BYTES))


def opened_zip(path: Path) -> ClassArchive:
    """The zip of a hand-in, of which only the table is read.

    Raises:
        RefusedError: no zip, whatever it is called, damaged, or more than a hand-in may hold.
    """
    return ClassArchive(_Zip(path, MAX_ENTRIES, archives.MAX_DIRECTORY_BYTES))


class ClassFolder(Protocol):
    """``root`` is the path on disk, ``name`` what it is called; paths are relative to it."""

    root: Path
    name: str
    on_disk: bool

    def children(self, folder: str) -> list[FoundPath]: ...
    def read(self, path: str, limit: int) -> bytes | None: ...
    def outside(self) -> list[str]: ...


class OnDisk:
    """A folder on disk. A link is listed as one where it may be meant as a hand-in."""

    on_disk = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = readable(root.name)

    def children(self, folder: str) -> list[FoundPath]:
        """Return what lies in a folder, without rubbish, sorted by name. Raises OSError."""
        start = f"{folder}/" if folder else ""
        listed = []
        with os.scandir(self.root / folder) as entries:
            for entry in entries:
                if not ignored(entry.name):
                    listed.append(FoundPath(start + entry.name, _kind(entry)))
        return sorted(listed, key=lambda one: (one.name.casefold(), one.name))

    def read(self, path: str, limit: int) -> bytes | None:
        """The bytes of a file; None if there is none that can be read."""
        try:
            return read_regular(self.root / path, path, limit)
        except RefusedError:
            return None

    def outside(self) -> list[str]:
        """Nothing on disk has a name that points out of its folder."""
        return []


class InArchive:
    """An archive of a class, nothing of which is ever written to disk."""

    on_disk = False

    def __init__(self, root: Path) -> None:
        """Raises RefusedError: it cannot be listed."""
        self.root = root
        self.name = PACKED.sub("", readable(root.name))
        self.archive = opened(root)

    def children(self, folder: str) -> list[FoundPath]:
        """Return what lies in a folder of the archive, sorted by name."""
        listed = self.archive.children(folder)
        return sorted(listed, key=lambda one: (one.name.casefold(), one.name))

    def read(self, path: str, limit: int) -> bytes | None:
        """The bytes of a member; None if there is none, or several, that can be read."""
        at = self.archive.at(path)
        try:
            return self.archive.read(at[0], path, limit) if len(at) == 1 else None
        except RefusedError:
            return None

    def outside(self) -> list[str]:
        """Members whose names point out of the archive, and lie in no folder of it."""
        paths = (one.path for one in self.archive.found if one.kind is Kind.OUTSIDE)
        top = {one.name for one in self.archive.children("")}
        return [path for path in paths if path.split("/")[0] not in top]


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        leads = os.path.isdir(entry.path) or PACKED.search(entry.name)
        return Kind.SYMLINK if leads else Kind.SPECIAL
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.SPECIAL

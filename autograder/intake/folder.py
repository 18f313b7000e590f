"""What lies in a handed-in folder, seen without following any link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from autograder.intake.decode import RefusedError
from autograder.intake.tree import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_LISTED,
    Found,
    Kind,
    ignored,
    kind_of,
)

# Windows has none of these; there, lstat and fstat alone decide.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO must not make us wait for a writer
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class FolderTree:
    """A hand-in that is a folder."""

    def __init__(self, root: Path) -> None:
        """List ``root``, level by level.

        Further down than ``MAX_DEPTH``, where only the course's own folders matter, listing ends
        with ``MAX_LISTED`` entries, and what cannot be listed is left out.

        Raises:
            RefusedError: more than ``MAX_ENTRIES`` entries down to ``MAX_DEPTH``, or a folder
                there that cannot be listed.
        """
        self.root = root
        self.found = tuple(self._listed())

    def read(self, found: Found, limit: int) -> bytes:
        """The bytes of a regular file, at most ``limit`` of them.

        Raises:
            RefusedError: not a regular file, too big, or unreadable.
        """
        return read_regular(self.root / found.path, found.path, limit)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _listed(self) -> Iterator[Found]:
        level, depth, count = [""], 0, 0
        while level:
            further = []
            for prefix in level:
                for one in self._children(prefix, depth):
                    count += 1
                    if count > (MAX_ENTRIES if depth <= MAX_DEPTH else MAX_LISTED):
                        if depth <= MAX_DEPTH:
                            raise RefusedError("too_many", limit=MAX_ENTRIES)
                        return
                    yield one
                    if one.kind is Kind.FOLDER:
                        further.append(f"{one.path}/")
            level, depth = further, depth + 1

    def _children(self, prefix: str, depth: int) -> list[Found]:
        try:
            with os.scandir(self.root / prefix) as entries:
                listed = [
                    Found(prefix + one.name, kind_of(one.stat(follow_symlinks=False).st_mode))
                    for one in entries
                    if not ignored(one.name)
                ]
        except OSError as error:
            if depth > MAX_DEPTH:
                return []
            where = prefix.rstrip("/") or self.root.name
            raise RefusedError("unreadable", file=where, text=str(error.strerror)) from None
        return sorted(listed, key=lambda one: one.path)


def open_regular(path: Path, shown: str) -> int:
    """Open a regular file for reading without following a link at its end.

    Returns:
        A descriptor that the caller closes.

    Raises:
        RefusedError: a symbolic link, a special file, or unreadable; named as ``shown``.
    """
    try:
        before = os.lstat(path)
        kind = kind_of(before.st_mode)
        if kind is not Kind.FILE:
            raise RefusedError("symlink" if kind is Kind.SYMLINK else "special", file=shown)
        # A second name for somebody else's file, which the hand-in's owner could not read.
        if before.st_nlink > 1 and before.st_uid != os.lstat(path.parent).st_uid:
            raise RefusedError("hard_link", file=shown)
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        raise RefusedError("unreadable", file=shown, text=str(error.strerror)) from None
    if not os.path.samestat(before, os.fstat(descriptor)):
        os.close(descriptor)
        raise RefusedError("special", file=shown)
    return descriptor


def read_regular(path: Path, shown: str, limit: int) -> bytes:
    """The bytes of a regular file.

    Raises:
        RefusedError: no regular file, a link, unreadable, or more than ``limit`` bytes.
    """
    with os.fdopen(open_regular(path, shown), "rb") as stream:
        try:
            data = stream.read(limit + 1)
        except OSError as error:
            raise RefusedError("unreadable", file=shown, text=str(error.strerror)) from None
    if len(data) > limit:
        raise RefusedError("too_big", file=shown, limit=limit >> 10)
    return data

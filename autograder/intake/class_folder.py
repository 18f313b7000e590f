"""The folder, or the archive, of a class as a place that can be listed, one level at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from autograder.intake import class_archive
from autograder.intake.decode import RefusedError
from autograder.intake.folder import read_regular
from autograder.intake.names import readable
from autograder.intake.tree import PACKED, Found, Kind, ignored


class ClassFolder(Protocol):
    """``root`` is the path on disk, ``name`` what it is called; paths are relative to it."""

    root: Path
    name: str
    on_disk: bool

    def children(self, folder: str) -> list[Found]: ...
    def read(self, path: str, limit: int) -> bytes | None: ...
    def outside(self) -> list[str]: ...


class OnDisk:
    """A folder on disk. A link is listed as one where it may be meant as a hand-in."""

    on_disk = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = readable(root.name)

    def children(self, folder: str) -> list[Found]:
        """What lies in a folder, without rubbish, sorted by name. Raises OSError."""
        start = f"{folder}/" if folder else ""
        listed = []
        with os.scandir(self.root / folder) as entries:
            for entry in entries:
                if not ignored(entry.name):
                    listed.append(Found(start + entry.name, _kind(entry)))
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
    """A zip or tar, nothing of which is ever extracted."""

    on_disk = False

    def __init__(self, root: Path) -> None:
        """Raises RefusedError: it cannot be listed."""
        self.root = root
        self.name = PACKED.sub("", readable(root.name))
        self.archive = class_archive.opened(root)

    def children(self, folder: str) -> list[Found]:
        """What lies in a folder of the archive, sorted by name."""
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
        first = ((path, path.split("/")[0]) for path in paths)
        return [path for path, part in first if part in ("", "..") or ":" in part]


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        leads = os.path.isdir(entry.path) or PACKED.search(entry.name)
        return Kind.SYMLINK if leads else Kind.SPECIAL
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.SPECIAL

"""What lies in a hand-in, seen from within: paths, their kinds, and how they are read."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

MAX_ENTRIES = 2000
MAX_LISTED = 20_000  # of a folder on disk, where an environment may lie further down
MAX_DEPTH = 2  # a wrapping folder, and one more; so many, too, in a folder of the course
MAX_NOTEBOOK_BYTES = 8 << 20  # pictures in outputs are part of the file
MAX_PACKED_BYTES = 32 << 20  # an archive inside a hand-in is unpacked in memory

METADATA = "submission_metadata.yml"  # Gradescope's, beside the folders of an export
TIMESTAMP = "timestamp.txt"  # nbgrader's, in every hand-in

PACKED = re.compile(r"\.(?:zip|rar|7z|tar|tgz|tbz2?|txz|(?:tar\.)?(?:gz|bz2|xz))$", re.IGNORECASE)


class Kind(Enum):
    """What a path in a hand-in is."""

    FILE = "file"
    FOLDER = "folder"
    SYMLINK = "symlink"
    HARDLINK = "hardlink"  # a second name in a tar for another member
    SPECIAL = "special"  # a FIFO, a socket, a device
    SPARSE = "sparse"  # a file in a tar that is mostly holes
    OUTSIDE = "outside"  # a name in an archive that points out of it


@dataclass(frozen=True)
class Found:
    """One path inside a hand-in, with forward slashes; ``index`` is its place in an archive."""

    path: str
    kind: Kind
    index: int = 0

    @property
    def name(self) -> str:
        """The last component."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def depth(self) -> int:
        """How many folders are above it inside the hand-in."""
        return self.path.count("/")


class Tree(Protocol):
    """A folder or an archive. ``read`` takes at most ``limit`` bytes, and refuses more."""

    @property
    def found(self) -> tuple[Found, ...]: ...
    def read(self, found: Found, limit: int) -> bytes: ...
    def close(self) -> None: ...


def ignored(name: str) -> bool:
    """Whether a component is the rubbish of a system or tool: ``.git``, ``__MACOSX``, …"""
    return name.startswith(".") or name in ("__MACOSX", "__pycache__")


def kind_of(mode: int) -> Kind:
    """The kind that the mode bits of ``lstat`` (or of a zip made on Unix) tell."""
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.SYMLINK if stat.S_ISLNK(mode) else Kind.SPECIAL


def member(path: str, kind: Kind, index: int) -> Found | None:
    """A member of an archive under a clean path; None for what is not looked at.

    A path that is absolute, begins with a drive or climbs with ``..`` is ``OUTSIDE``: it is
    never read, whatever it is.
    """
    path = path.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or any(ignored(part) for part in parts if part != ".."):
        return None
    if path.startswith("/") or ".." in parts or ":" in parts[0]:
        return Found(path.rstrip("/"), Kind.OUTSIDE, index)
    return Found("/".join(parts), kind, index)


def limit_of(name: str) -> int:
    """How many bytes of a member may matter: 0 for what grading never looks into."""
    lowered = name.lower()
    if lowered.endswith(".ipynb"):
        return MAX_NOTEBOOK_BYTES
    if PACKED.search(lowered):
        return MAX_PACKED_BYTES
    if lowered == METADATA:
        return MAX_PACKED_BYTES
    return 1 << 20 if lowered.endswith(".py") or lowered == TIMESTAMP else 0

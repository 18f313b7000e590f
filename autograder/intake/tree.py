"""A hand-in seen from within: paths, their kinds, and how they are read and decoded."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from autograder.course.records import Message, Origin

MAX_ENTRIES = 2000
MAX_LISTED = 20_000  # of a folder on disk, where an environment may lie further down
MAX_DEPTH = 2  # a wrapping folder, and one more; so many, too, in a folder of the course
MAX_NOTEBOOK_BYTES = 8 << 20  # pictures in outputs are part of the file
MAX_PACKED_BYTES = 32 << 20  # an archive inside a hand-in is unpacked in memory

METADATA = "submission_metadata.yml"  # Gradescope's, beside the folders of an export
TIMESTAMP = "timestamp.txt"  # nbgrader's, in every hand-in

PACKED = re.compile(r"\.(?:zip|rar|7z|tar|tgz|tbz2?|txz|(?:tar\.)?(?:gz|bz2|xz))$", re.IGNORECASE)
# Archives that are not read, and parts of those that are.
_OTHER_PACKED = re.compile(
    r"\.(?:t?zst|lz4?|lzma|lzh|z|zipx|jar|iso|cab|arj|exe|\d{3}|[rz]\d\d)$", re.IGNORECASE
)


def may_be_work(name: str) -> bool:
    """Return whether a loose file is a source or is packed, by its name."""
    packed = PACKED.search(name) or _OTHER_PACKED.search(name)
    return name.lower().endswith((".py", ".ipynb")) or packed is not None


class Kind(Enum):
    """The kind of a path in a hand-in."""

    FILE = "file"
    FOLDER = "folder"
    SYMLINK = "symlink"
    HARDLINK = "hardlink"  # a second name in a tar for another member
    SPECIAL = "special"  # a FIFO, a socket, a device
    SPARSE = "sparse"  # a file in a tar that is mostly holes
    OUTSIDE = "outside"  # a name in an archive that points out of it


@dataclass(frozen=True)
class FoundPath:
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
        """Return how many folders are above it inside the hand-in."""
        return self.path.count("/")


class Tree(Protocol):
    """A folder or an archive. ``read`` takes at most ``limit`` bytes, and refuses more."""

    @property
    def found(self) -> tuple[FoundPath, ...]: ...
    def read(self, found: FoundPath, limit: int) -> bytes: ...
    def close(self) -> None: ...


def ignored(name: str) -> bool:
    """Return whether a component is the rubbish of a system or tool: ``.git``, ``__MACOSX``, …

    No tool begins a name with a dot and a digit or a Chinese character: ``.张三`` is somebody.
    """
    hidden = name.startswith(".") and not (name[1:2].isdigit() or name[1:2] > "\x7f")
    return hidden or name in ("__MACOSX", "__pycache__")


def kind_of(mode: int) -> Kind:
    """The kind that the mode bits of ``lstat`` (or of a zip made on Unix) tell."""
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.SYMLINK if stat.S_ISLNK(mode) else Kind.SPECIAL


def member(path: str, kind: Kind, index: int) -> FoundPath | None:
    """A member of an archive under a clean path; None for what is not looked at.

    A path that is absolute, begins with a drive or climbs with ``..`` is ``OUTSIDE``: it is
    never read, whatever it is.
    """
    path = path.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or any(ignored(part) for part in parts if part != ".."):
        return None
    if path.startswith("/") or ".." in parts or ":" in parts[0]:
        return FoundPath(path.rstrip("/"), Kind.OUTSIDE, index)
    return FoundPath("/".join(parts), kind, index)


def limit_of(name: str) -> int:
    """Return how many bytes of a member may matter: 0 for what grading never looks into."""
    lowered = name.lower()
    if lowered.endswith(".ipynb"):
        return MAX_NOTEBOOK_BYTES
    if PACKED.search(lowered):
        return MAX_PACKED_BYTES
    if lowered == METADATA:
        return MAX_PACKED_BYTES
    return 1 << 20 if lowered.endswith(".py") or lowered == TIMESTAMP else 0


# A hand-in before it is read: who it is from and where it lies, as small plain data.


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


# From the bytes of a source file to its text; what cannot be read is named.

MAX_SOURCE_BYTES = 1 << 20

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
# Only codecs written in C: `punycode` on a megabyte would hold the grader for minutes.
_COOKIE_CODECS = frozenset(
    (
        *("gbk", "gb2312", "gb18030", "big5", "big5hkscs"),
        *("shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"),
        *("iso8859-1", "iso8859-15", "cp1252", "cp1251", "koi8-r", "cp437", "cp850", "mac-roman"),
    )
)


class RefusedError(Exception):
    """A file, or a whole hand-in, that cannot be taken; ``reason`` says why."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.reason = Message(f"intake.{key}", values)


def decode(data: bytes, file: str) -> tuple[str, Message | None]:
    """Read ``data`` as UTF-8, else by its PEP 263 cookie, else as GB18030.

    Returns:
        The text with ``\\n`` line ends and without a byte order mark, and a note where the
        encoding had to be guessed.

    Raises:
        RefusedError: UTF-16, NUL bytes, or no encoding fits.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RefusedError("utf16", file=file)
    if b"\0" in data:
        raise RefusedError("nul", file=file)
    text = _decode_as(data, "utf-8-sig")
    if text is not None:
        return _unix_lines(text), None
    cookie = _cookie(data)
    if cookie and (text := _decode_as(data, cookie)) is not None:
        return _unix_lines(text), None
    if (text := _decode_as(data, "gb18030")) is not None:
        return _unix_lines(text), Message("intake.gbk", {"file": file})
    raise RefusedError("undecodable", file=file)


def _decode_as(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _cookie(data: bytes) -> str | None:
    """The encoding that line 1 or 2 declares, if it is one of the known ones."""
    lines = data[:1000].splitlines()[:2]
    for line in lines:
        if match := _COOKIE.match(line):
            try:
                name = codecs.lookup(match[1].decode("ascii", "replace")).name
            except LookupError:
                return None
            return name if name in _COOKIE_CODECS else None
        if not _BLANK.match(line):
            return None
    return None


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


# What lies in a handed-in folder, seen without following any link.

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

    def read(self, found: FoundPath, limit: int) -> bytes:
        """The bytes of a regular file, at most ``limit`` of them.

        Raises:
            RefusedError: not a regular file, too big, or unreadable.
        """
        return read_regular(self.root / found.path, found.path, limit)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _listed(self) -> Iterator[FoundPath]:
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

    def _children(self, prefix: str, depth: int) -> list[FoundPath]:
        try:
            with os.scandir(self.root / prefix) as entries:
                listed = [
                    FoundPath(prefix + one.name, kind_of(one.stat(follow_symlinks=False).st_mode))
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

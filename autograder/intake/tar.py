"""What lies in a tar, walked header by header in one pass; nothing is extracted to disk.

`tarfile` parses each header block. The walk is ours: it only ever goes forward, holds one
member at a time, and no size, sparse map or chain of headers in the archive decides how long
it takes or how much memory.
Source: pax(1) of POSIX.1-2008, "ustar Interchange Format"; tar(5) of libarchive for GNU's.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from autograder.intake.decode import RefusedError
from autograder.intake.inflow import Inflow
from autograder.intake.names import readable
from autograder.intake.tree import MAX_ENTRIES, Found, Kind, limit_of, member

MAX_MEMBERS = 50_000  # with rubbish such as .git, of which only the others are counted as files
MAX_UNPACKED_BYTES = 256 << 20
MAX_KEPT_BYTES = 48 << 20

_BLOCK = tarfile.BLOCKSIZE
_MAX_HEADER = 1 << 16  # of a long name or pax records
_LONG_NAME, _PAX = tarfile.GNUTYPE_LONGNAME, (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_HEADERS = (_LONG_NAME, tarfile.GNUTYPE_LONGLINK, *_PAX, tarfile.XGLTYPE)
_KINDS = {
    tarfile.DIRTYPE: Kind.FOLDER,
    tarfile.SYMTYPE: Kind.SYMLINK,
    tarfile.LNKTYPE: Kind.HARDLINK,
    tarfile.CHRTYPE: Kind.SPECIAL,
    tarfile.BLKTYPE: Kind.SPECIAL,
    tarfile.FIFOTYPE: Kind.SPECIAL,
    tarfile.GNUTYPE_SPARSE: Kind.SPARSE,
}
_WITHOUT_DATA = (Kind.FOLDER, Kind.SYMLINK, Kind.HARDLINK, Kind.SPECIAL)


class Member:
    """A member that the walk stands at; ``size`` is that of its data in the archive."""

    def __init__(self, path: str, kind: Kind, size: int, stream: Inflow, shown: str) -> None:
        self.path = path
        self.kind = kind
        self.size = size
        self._stream = stream
        self._shown = shown
        self._left = size

    def take(self) -> bytes:
        """All of its data, once.

        Raises:
            RefusedError: the archive ends before, or a cap of the stream is passed.
        """
        data = self._stream.read(self._left)
        if len(data) < self._left:
            raise RefusedError("broken_archive", file=self._shown)
        self._left = 0
        return data

    def leave(self) -> None:
        """Go on to the next header."""
        self._stream.skip(self._left + -self.size % _BLOCK)


def walk(stream: Inflow, shown: str) -> Iterator[Member]:
    """The members in order; the data of each can be taken until the next is asked for.

    Raises:
        RefusedError: no tar, damaged, or a cap of the stream is passed.
    """
    everywhere: dict[str, str] = {}
    local: dict[str, str] = {}
    first = True
    while True:
        block = stream.read(_BLOCK)
        if len(block) < _BLOCK or not any(block):
            if first and len(block) < _BLOCK:
                raise RefusedError("not_a_zip", file=shown)
            return
        header = _parsed(block, shown, first)
        first = False
        if header.type in _HEADERS:
            if not 0 <= header.size <= _MAX_HEADER:
                raise RefusedError("broken_archive", file=shown)
            records = Member("", Kind.FILE, header.size, stream, shown)
            body = records.take()
            records.leave()
            if header.type == _LONG_NAME:
                local["path"] = body.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            elif header.type == tarfile.XGLTYPE:
                everywhere |= _records(body, shown)
            elif header.type in _PAX:
                local |= _records(body, shown)
            continue
        if header.type == tarfile.GNUTYPE_SPARSE:
            # More of the map of holes may follow, block by block; byte 482, then 504, says so.
            more = block[482]
            while more:
                block = stream.read(_BLOCK)
                if len(block) < _BLOCK:
                    raise RefusedError("broken_archive", file=shown)
                more = block[504]
        found = _member(header, everywhere | local, stream, shown)
        local = {}
        yield found
        found.leave()


def _parsed(block: bytes, shown: str, first: bool) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        raise RefusedError("not_a_zip" if first else "broken_archive", file=shown) from None


def _member(header: tarfile.TarInfo, records: dict[str, str], stream: Inflow, shown: str) -> Member:
    kind = _KINDS.get(header.type, Kind.FILE if header.isreg() else Kind.SPECIAL)
    size = header.size
    try:
        size = int(records.get("size", size))
    except ValueError:
        size = -1
    if size < 0:
        raise RefusedError("broken_archive", file=shown)
    if any(key.startswith("GNU.sparse.") for key in records):
        kind = Kind.SPARSE
    path = records.get("GNU.sparse.name") or records.get("path") or header.name
    if header.isdir() or (path.endswith("/") and kind is Kind.FILE):
        kind = Kind.FOLDER
    # A type that is not known has data, as `tarfile` takes it, too.
    dataless = kind in _WITHOUT_DATA and header.type in (*_KINDS, tarfile.AREGTYPE)
    return Member(readable(path), kind, 0 if dataless else size, stream, shown)


def _records(body: bytes, shown: str) -> dict[str, str]:
    """The records of a pax header, each ``<length> <key>=<value>\\n``."""
    found: dict[str, str] = {}
    while body.strip(b"\0"):
        digits, _, _ = body.partition(b" ")
        if not digits.isdigit() or len(digits) > 6 or not len(digits) < int(digits) <= len(body):
            raise RefusedError("broken_archive", file=shown)
        record, body = body[len(digits) + 1 : int(digits)], body[int(digits) :]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return found


class TarTree:
    """A hand-in that is a tar: one pass lists it and keeps the members that may matter."""

    def __init__(self, stream: Inflow, shown: str) -> None:
        """Go through ``stream`` and close it.

        Raises:
            RefusedError: no tar, damaged, or a cap is passed: members, files, bytes, ratio.
        """
        listed: list[Found] = []
        self._kept: dict[int, bytes] = {}
        self._sizes: dict[int, int] = {}
        room = MAX_KEPT_BYTES
        try:
            for index, one in enumerate(walk(stream, shown)):
                if index >= MAX_MEMBERS:
                    raise RefusedError("too_many", limit=MAX_ENTRIES)
                found = member(one.path, one.kind, index)
                if found is None:
                    continue
                listed.append(found)
                if len(listed) > MAX_ENTRIES:
                    raise RefusedError("too_many", limit=MAX_ENTRIES)
                self._sizes[index] = one.size
                if found.kind is Kind.FILE and one.size <= limit_of(found.name):
                    room -= one.size
                    if room < 0:
                        raise RefusedError("too_much", file=shown, limit=MAX_KEPT_BYTES >> 20)
                    self._kept[index] = one.take()
        finally:
            stream.close()
        self.found = tuple(listed)

    def read(self, found: Found, limit: int) -> bytes:
        """The bytes of a member.

        Raises:
            RefusedError: it is larger than ``limit``, or than such a file may be.
        """
        if self._sizes[found.index] > limit or found.index not in self._kept:
            raise RefusedError("too_big", file=found.path, limit=limit >> 10)
        return self._kept[found.index]

    def close(self) -> None:
        """Nothing is held open between calls."""

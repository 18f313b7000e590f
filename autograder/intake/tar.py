"""Tar archives, walked header by header in one pass; nothing is extracted to disk.

`tarfile` parses each header block. The walk is ours: it only ever goes forward, holds one
member at a time, and no size, sparse map or chain of headers in the archive decides how long
it takes or how much memory.
Source: pax(1) of POSIX.1-2008, "ustar Interchange Format"; tar(5) of libarchive for GNU's.
"""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from autograder.intake.names import readable
from autograder.intake.tree import MAX_ENTRIES, FoundPath, Kind, RefusedError, limit_of, member

# A stream that is unpacked as it is read, forward only, with caps on what comes out.

_CHUNK = 1 << 16
_MAX_RATIO = 200
_SLACK = 4 << 20  # so much may come out of anything: a ratio says nothing about little
_LZMA_MEMORY = 128 << 20  # `xz -9` asks for 65 MiB
_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, MemoryError)


class _Unpacked(Protocol):
    def decompress(self, data: bytes, max_length: int) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Gzip:
    """`zlib` with the manners of `bz2` and `lzma`: it keeps what it has not unpacked yet."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


def packing(head: bytes) -> str:
    """Return how a stream that begins with ``head`` is packed: gz, bz2, xz, or empty."""
    for name, magic in (("gz", b"\x1f\x8b"), ("bz2", b"BZh"), ("xz", b"\xfd7zXZ\0")):
        if head.startswith(magic):
            return name
    return ""


class CappedReader:
    """Reads ``raw`` forward. ``shown`` names it in messages.

    Args:
        most: bytes that may come out, those that are skipped included unless seeking skips them.
        tight: whether to refuse what unpacks to over 200 times its size, as no source code does.
    """

    def __init__(self, raw: BinaryIO, shown: str, most: int, *, tight: bool = True) -> None:
        self._raw = raw
        self._shown = shown
        self._most = most
        self._tight = tight
        head = raw.read(6)
        raw.seek(-len(head), 1)
        self._packing = packing(head)
        self._unpacking = self._begin() if self._packing else None
        self._ready = bytearray()
        self._went_in = self._came_out = 0

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes, fewer only where the stream ends.

        Raises:
            RefusedError: damaged, or a cap is passed.
        """
        try:
            while len(self._ready) < size and (data := self._more(size - len(self._ready))):
                self._count(len(data))
                self._ready += data
        except _DAMAGE:
            raise RefusedError("broken_archive", file=self._shown) from None
        taken = bytes(self._ready[:size])
        del self._ready[:size]
        return taken

    def skip(self, size: int) -> None:
        """Go on by ``size`` bytes.

        Raises:
            RefusedError: the stream ends before, is damaged, or a cap is passed.
        """
        if self._unpacking is None and not self._ready and size:
            try:
                self._raw.seek(size - 1, 1)
            except (OSError, OverflowError, ValueError):  # farther than any file reaches
                raise RefusedError("broken_archive", file=self._shown) from None
            size = 1
        while size > 0:
            data = self.read(min(size, _CHUNK))
            if not data:  # what came after a member that is cut off nobody knows
                raise RefusedError("broken_archive", file=self._shown)
            size -= len(data)

    def close(self) -> None:
        """Close the stream below."""
        self._raw.close()

    def _count(self, size: int) -> None:
        self._came_out += size
        if self._came_out > self._most:
            raise RefusedError("too_much", file=self._shown, limit=self._most >> 20)
        if self._tight and self._came_out > max(_SLACK, _MAX_RATIO * self._went_in):
            raise RefusedError("too_tight", file=self._shown)

    def _begin(self) -> _Unpacked:
        if self._packing == "gz":
            return _Gzip()
        if self._packing == "bz2":
            return bz2.BZ2Decompressor()
        return lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)

    def _more(self, wanted: int) -> bytes:
        """Some more bytes, at most 64 KiB; none at the end."""
        if self._unpacking is None:
            data = self._raw.read(min(wanted, _CHUNK))
            self._went_in += len(data)
            return data
        while True:
            if self._unpacking.eof:
                # Streams one after the other are one; padding after the last is not looked at.
                rest = self._unpacking.unused_data or self._raw.read(_CHUNK)
                if packing(rest) != self._packing:
                    return b""
                self._unpacking = self._begin()
            else:
                rest = self._raw.read(_CHUNK) if self._unpacking.needs_input else b""
            self._went_in += len(rest)
            if data := self._unpacking.decompress(rest, _CHUNK):
                return data
            if not rest and not self._unpacking.eof and self._unpacking.needs_input:
                raise EOFError


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

    def __init__(self, path: str, kind: Kind, size: int, stream: CappedReader, shown: str) -> None:
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


def walk(stream: CappedReader, shown: str) -> Iterator[Member]:
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


def _member(
    header: tarfile.TarInfo, records: dict[str, str], stream: CappedReader, shown: str
) -> Member:
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
    """The records of a pax header that matter here, each ``<length> <key>=<value>\\n``."""
    found: dict[str, str] = {}
    at, end = 0, len(body.rstrip(b"\0"))
    while at < end:
        digits, _, _ = body[at : at + 7].partition(b" ")
        if not digits.isdigit() or len(digits) > 6:
            raise RefusedError("broken_archive", file=shown)
        size = int(digits)
        if not len(digits) < size <= len(body) - at:
            raise RefusedError("broken_archive", file=shown)
        record = body[at + len(digits) + 1 : at + size]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        if key.startswith(b"GNU.sparse.") and key != b"GNU.sparse.name":
            found["GNU.sparse."] = ""  # that there is one is all that matters
        elif key in (b"path", b"size", b"GNU.sparse.name"):
            found[key.decode()] = value.decode("utf-8", "surrogateescape")
        at += size
    return found


class TarTree:
    """A hand-in that is a tar: one pass lists it and keeps the members that may matter."""

    def __init__(self, stream: CappedReader, shown: str) -> None:
        """Go through ``stream`` and close it.

        Raises:
            RefusedError: no tar, damaged, or a cap is passed: members, files, bytes, ratio.
        """
        listed: list[FoundPath] = []
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

    def read(self, found: FoundPath, limit: int) -> bytes:
        """The bytes of a member.

        Raises:
            RefusedError: it is larger than ``limit``, or than such a file may be.
        """
        if self._sizes[found.index] > limit or found.index not in self._kept:
            raise RefusedError("too_big", file=found.path, limit=limit >> 10)
        return self._kept[found.index]

    def close(self) -> None:
        """Nothing is held open between calls."""

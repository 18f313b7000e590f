"""A stream that is unpacked as it is read, forward only, with caps on what comes out."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import BinaryIO, Protocol

from autograder.intake.decode import RefusedError

_CHUNK = 1 << 16
_MAX_RATIO = 200
_SLACK = 4 << 20  # so much may come out of anything: a ratio says nothing about little
_LZMA_MEMORY = 128 << 20  # `xz -9` asks for 65 MiB
_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, MemoryError)


class _Unpacking(Protocol):
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
    """How a stream that begins with ``head`` is packed: gz, bz2, xz, or empty for not at all."""
    for name, magic in (("gz", b"\x1f\x8b"), ("bz2", b"BZh"), ("xz", b"\xfd7zXZ\0")):
        if head.startswith(magic):
            return name
    return ""


class Inflow:
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
        """Go on by ``size`` bytes, or to the end.

        Raises:
            RefusedError: damaged, or a cap is passed.
        """
        if self._unpacking is None and not self._ready:
            try:
                self._raw.seek(size, 1)
            except (OSError, OverflowError, ValueError):  # farther than any file reaches
                raise RefusedError("broken_archive", file=self._shown) from None
            return
        while size > 0 and (data := self.read(min(size, _CHUNK))):
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

    def _begin(self) -> _Unpacking:
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

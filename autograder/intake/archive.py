"""What lies in a zip, read member by member: nothing is ever extracted to disk.

Only the table of members is left to `zipfile`. Members are unpacked here, so that a class
archive needs its table once and no handle in between, and so that no field of the archive
decides how much memory is taken.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO

from autograder.intake.decode import RefusedError
from autograder.intake.names import readable
from autograder.intake.tree import MAX_ENTRIES, Found, Kind, kind_of, member

MAX_RATIO = 200  # real Python text packs 3 to 10 times
MAX_DIRECTORY_BYTES = 1 << 20

_ENCRYPTED = 0x1
_UTF8_NAME = 0x800
_CHUNK = 1 << 16
# What `zipfile` raises on archives that are damaged or made to be nasty.
_DAMAGE = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    zlib.error,
    struct.error,
    ValueError,  # UnicodeDecodeError of a name is one
    NotImplementedError,
    RuntimeError,
    OverflowError,
    LookupError,
)


class _Window:
    """A binary stream that refuses one huge read.

    `zipfile` reads the whole table of members at once, sized by a field of the file.
    """

    def __init__(self, raw: BinaryIO, most: int) -> None:
        self._raw = raw
        self._most = most

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            size = self._most + 1
        data = self._raw.read(min(size, self._most + 1))
        if len(data) > self._most:
            raise RefusedError("too_many", limit=MAX_ENTRIES)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def seekable(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Place:
    """Where a member of a zip lies, as its table says."""

    offset: int
    packed: int
    size: int
    crc: int
    method: int
    flags: int


def table(
    stream: BinaryIO, shown: str, most: int = MAX_ENTRIES, directory: int = MAX_DIRECTORY_BYTES
) -> tuple[list[Found], list[Place]]:
    """The members of a zip; ``Found.index`` counts in the second list.

    Raises:
        RefusedError: not a zip, damaged, or more than ``most`` members that are no rubbish.
    """
    listed: list[Found] = []
    places: list[Place] = []
    try:
        infos = zipfile.ZipFile(_Window(stream, directory)).infolist()
        for info in infos:
            found = _found(info, len(places))
            if found is None:
                continue
            listed.append(found)
            if len(listed) > most:
                raise RefusedError("too_many", limit=most)
            places.append(
                Place(
                    info.header_offset,
                    info.compress_size,
                    info.file_size,
                    info.CRC,
                    info.compress_type,
                    info.flag_bits,
                )
            )
    except _DAMAGE:
        raise RefusedError("not_a_zip", file=shown) from None
    return listed, places


def take(stream: BinaryIO, place: Place, shown: str, limit: int) -> bytes:
    """The bytes of a member, unpacked in memory up to ``limit``.

    Raises:
        RefusedError: too big, packed too tightly, encrypted, an unusual method, or damaged.
    """
    if place.flags & _ENCRYPTED:
        raise RefusedError("encrypted", file=shown)
    # LZMA lets the archive choose how much memory unpacking takes.
    if place.method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RefusedError("zip_method", file=shown)
    try:
        stream.seek(place.offset)
        head = stream.read(30)
        if len(head) < 30 or head[:4] != b"PK\3\4":
            raise EOFError
        stream.seek(sum(struct.unpack("<HH", head[26:30])), 1)
        # The sizes in the table may lie: only what really comes out is counted.
        data = _unpack(stream, place, limit)
    except _DAMAGE:
        raise RefusedError("damaged", file=shown) from None
    if len(data) > limit:
        raise RefusedError("too_big", file=shown, limit=limit >> 10)
    if len(data) > MAX_RATIO * max(place.packed, 1):
        raise RefusedError("bomb", file=shown)
    if len(data) != place.size or zlib.crc32(data) != place.crc:
        raise RefusedError("damaged", file=shown)
    return data


def _unpack(stream: BinaryIO, place: Place, limit: int) -> bytes:
    """At most ``limit + 1`` bytes of a member."""
    if place.method == zipfile.ZIP_STORED:
        return stream.read(min(place.packed, limit + 1))
    unpacking = zlib.decompressobj(-15)
    data = bytearray()
    left = place.packed
    while left > 0 and not unpacking.eof and len(data) <= limit:
        packed = stream.read(min(left, _CHUNK))
        if not packed:
            raise EOFError
        left -= len(packed)
        data += unpacking.decompress(packed, limit + 1 - len(data))
        while unpacking.unconsumed_tail and len(data) <= limit:
            data += unpacking.decompress(unpacking.unconsumed_tail, limit + 1 - len(data))
    return bytes(data)


class ZipTree:
    """A hand-in that is a zip archive."""

    def __init__(self, stream: BinaryIO, shown: str) -> None:
        """List the archive in ``stream``, which is closed with the tree.

        Raises:
            RefusedError: not a zip, damaged, or more than ``MAX_ENTRIES`` members.
        """
        self._stream = stream
        try:
            found, self._places = table(stream, shown)
        except RefusedError:
            stream.close()
            raise
        self.found = tuple(found)

    def read(self, found: Found, limit: int) -> bytes:
        """The bytes of a member; see :func:`take`."""
        return take(self._stream, self._places[found.index], found.path, limit)

    def close(self) -> None:
        """Close the archive's file."""
        self._stream.close()


def _found(info: zipfile.ZipInfo, index: int) -> Found | None:
    path = _member_path(info)
    kind = kind_of(info.external_attr >> 16) if info.external_attr >> 28 else Kind.FILE
    if path.endswith("/") or (info.external_attr & 0x10 and not info.file_size):
        kind = Kind.FOLDER
    return member(path, kind, index)


def _member_path(info: zipfile.ZipInfo) -> str:
    """The name with forward slashes; Chinese Windows writes GBK and flags nothing.

    UTF-8 where it is flagged, else UTF-8 if it decodes, else GBK, else as `zipfile` took it:
    code page 437.
    """
    name = info.orig_filename  # `filename` ends at a NUL, which would hide what follows
    if not info.flag_bits & _UTF8_NAME and not name.isascii():
        try:
            raw = name.encode("cp437")
        except UnicodeEncodeError:
            return info.filename.replace("\\", "/")
        for encoding in ("utf-8", "gb18030"):
            try:
                name = raw.decode(encoding)
                break
            except UnicodeDecodeError:
                continue
    return readable(name.replace("\\", "/"))

"""What lies in a handed-in zip, read member by member: nothing is ever extracted to disk."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from autograder.grading.decode import MAX_SOURCE_BYTES, RefusedError
from autograder.grading.folder import MAX_ENTRIES, Found, Kind, ignored, kind_of, open_regular

MAX_RATIO = 200  # real Python text packs 3 to 10 times
MAX_DIRECTORY_BYTES = 1 << 20

_ENCRYPTED = 0x1
_UTF8_NAME = 0x800
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

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            size = MAX_DIRECTORY_BYTES + 1
        data = self._raw.read(min(size, MAX_DIRECTORY_BYTES + 1))
        if len(data) > MAX_DIRECTORY_BYTES:
            raise RefusedError("too_many", limit=MAX_ENTRIES)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def seekable(self) -> bool:
        return True


class ZipTree:
    """A hand-in that is a zip archive."""

    def __init__(self, path: Path, shown: str) -> None:
        """List the archive at ``path``, called ``shown`` in messages.

        Raises:
            RefusedError: not a zip, damaged, a link, or more than ``MAX_ENTRIES`` members.
        """
        self._stream = os.fdopen(open_regular(path, shown), "rb")
        try:
            self._zip = zipfile.ZipFile(_Window(self._stream))
            self._members = self._zip.infolist()
            self.found = tuple(self._list())
        except RefusedError:
            self.close()
            raise
        except _DAMAGE:
            self.close()
            raise RefusedError("not_a_zip", file=shown) from None

    def read(self, found: Found) -> bytes:
        """The bytes of a member, unpacked in memory up to the cap.

        Raises:
            RefusedError: too big, packed too tightly, encrypted, an unusual method, or damaged.
        """
        member = self._members[found.index]
        if member.flag_bits & _ENCRYPTED:
            raise RefusedError("encrypted", file=found.path)
        # LZMA lets the archive choose how much memory unpacking takes.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RefusedError("zip_method", file=found.path)
        try:
            # The sizes in the table may lie: only what really comes out is counted.
            with self._zip.open(member) as stream:
                data = stream.read(MAX_SOURCE_BYTES + 1)
        except _DAMAGE:
            raise RefusedError("damaged", file=found.path) from None
        if len(data) > MAX_SOURCE_BYTES:
            raise RefusedError("too_big", file=found.path, limit=MAX_SOURCE_BYTES >> 10)
        if len(data) > MAX_RATIO * max(member.compress_size, 1):
            raise RefusedError("bomb", file=found.path)
        return data

    def close(self) -> None:
        """Close the archive's file."""
        self._stream.close()

    def _list(self) -> list[Found]:
        listed = []
        for index, member in enumerate(self._members):
            path = _member_path(member)
            parts = [part for part in path.split("/") if part not in ("", ".")]
            if not parts or any(ignored(part) for part in parts if part != ".."):
                continue
            kind = kind_of(member.external_attr >> 16) if member.external_attr >> 28 else Kind.FILE
            if path.endswith("/") or (member.external_attr & 0x10 and not member.file_size):
                kind = Kind.FOLDER
            outside = path.startswith("/") or ".." in parts or ":" in parts[0]
            if outside:
                listed.append(Found(path.rstrip("/"), Kind.OUTSIDE, index))
            else:
                listed.append(Found("/".join(parts), kind, index))
            if len(listed) > MAX_ENTRIES:
                raise RefusedError("too_many", limit=MAX_ENTRIES)
        return listed


def _member_path(member: zipfile.ZipInfo) -> str:
    """The name with forward slashes; Chinese Windows writes GBK and flags nothing."""
    name = member.filename
    if not member.flag_bits & _UTF8_NAME and not name.isascii():
        try:
            raw = name.encode("cp437")
        except UnicodeEncodeError:
            return name.replace("\\", "/")
        for encoding in ("utf-8", "gb18030"):
            try:
                name = raw.decode(encoding)
                break
            except UnicodeDecodeError:
                continue
    return name.replace("\\", "/")

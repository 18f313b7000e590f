"""Archives of every kind, told apart by how they begin: a renamed RAR is no zip."""

from __future__ import annotations

import io
import os
import re
import selectors
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from autograder.course.labfile import ROOT
from autograder.intake.names import readable
from autograder.intake.tar import MAX_UNPACKED_BYTES, CappedReader, TarTree, packing
from autograder.intake.tree import (
    MAX_ENTRIES,
    FoundPath,
    Kind,
    RefusedError,
    Tree,
    kind_of,
    member,
    open_regular,
)
from autograder.sandbox import workers

# What lies in a zip, read member by member: nothing is ever extracted to disk.
#
# Only the table of members is left to `zipfile`. Members are unpacked here, so that a class
# archive needs its table once and no handle in between, and so that no field of the archive
# decides how much memory is taken.

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
class ZipMember:
    """A member of a zip, as its table says."""

    offset: int
    packed: int
    size: int
    crc: int
    method: int
    flags: int


def table(
    stream: BinaryIO, shown: str, most: int = MAX_ENTRIES, directory: int = MAX_DIRECTORY_BYTES
) -> tuple[list[FoundPath], list[ZipMember]]:
    """The members of a zip; ``FoundPath.index`` counts in the second list.

    Raises:
        RefusedError: not a zip, damaged, or more than ``most`` members that are no rubbish.
    """
    listed: list[FoundPath] = []
    places: list[ZipMember] = []
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
                ZipMember(
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


def take(stream: BinaryIO, place: ZipMember, shown: str, limit: int) -> bytes:
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


def _unpack(stream: BinaryIO, place: ZipMember, limit: int) -> bytes:
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

    def read(self, found: FoundPath, limit: int) -> bytes:
        """The bytes of a member; see :func:`take`."""
        return take(self._stream, self._places[found.index], found.path, limit)

    def close(self) -> None:
        """Close the archive's file."""
        self._stream.close()


def _found(info: zipfile.ZipInfo, index: int) -> FoundPath | None:
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


# RAR and 7z through `bsdtar`, where it is installed: their members come as a tar on stdout.
#
# `bsdtar -c @-` reads an archive on its standard input and writes it again as a tar: no name of a
# member is ever an argument, and nothing touches the disk. The process is confined (see
# ``sandbox.confine``), its time and its output are capped, and its tar is walked like any other.
# Source: bsdtar(1), libarchive 3.

CPU_SECONDS = 5  # for each; a hand-in may hold several, and its class waits
WALL_SECONDS = 60.0
MEMORY_BYTES = 1 << 30
MAX_OUTPUT_BYTES = 64 << 20
_MAX_ERRORS = 1 << 16

# Rubbish of tools is not unpacked; what counts as a file of the hand-in is decided as elsewhere.
_RUBBISH = (".git", ".venv", "__pycache__", "__MACOSX", ".ipynb_checkpoints")

_RAR = b"Rar!\x1a\x07"
_LOCKED = re.compile(rb"passphrase|password|encrypt", re.IGNORECASE)


def program() -> str | None:
    """Return where `bsdtar` is, or None."""
    return None if sys.platform == "win32" else shutil.which("bsdtar")


def as_tar(archive: BinaryIO, shown: str) -> bytes:
    """The archive in ``archive`` (its bytes from the start) as a tar.

    Raises:
        RefusedError: no bsdtar here, a password, damage, or more comes out than the cap.
    """
    found = program()
    if found is None:
        raise RefusedError("no_unpacker", file=shown)
    if _is_locked_rar(archive):
        raise RefusedError("encrypted", file=shown)
    head = archive.read(1 << 16)
    archive.seek(0)
    is_rar = head.startswith(_RAR)
    # A member that is a disk image at this very place would be read instead of the RAR.
    if is_rar and any(head.startswith(b"CD001", at) for at in range(32769, len(head), 2048)):
        raise RefusedError("not_a_zip", file=shown)
    with ExitStack() as running:
        stdin = running.enter_context(_on_a_descriptor(archive))
        if is_rar:
            # Where it can seek, libarchive takes a RAR whose last member is a zip for that zip.
            cat = [shutil.which("cat") or "/bin/cat"]
            feeding = running.enter_context(
                subprocess.Popen(cat, stdin=stdin, stdout=subprocess.PIPE, env={})
            )
            running.callback(feeding.kill)
            assert feeding.stdout is not None
            stdin = feeding.stdout
        command = [found, "-c", "-f", "-", "--format", "pax"]
        for name in _RUBBISH:
            command += ["--exclude", name]
        limits = (str(CPU_SECONDS), str(MEMORY_BYTES))
        process = subprocess.Popen(
            # Limits are set in a process of their own: between fork and exec in ours that is
            # not safe while other threads run.
            workers.command("autograder.worker.confine", ROOT, *limits, *command, "@-"),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,  # no terminal to ask for a password at
        )
        try:
            out, errors = _outputs(process)
        finally:
            process.kill()
            status = process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
    if len(out) > MAX_OUTPUT_BYTES:
        raise RefusedError("too_much", file=shown, limit=MAX_OUTPUT_BYTES >> 20)
    if status != 0:  # what came out may end in the middle of a file
        # Of one that did come out, a complaint may only be about somebody's `password….txt`.
        raise RefusedError("encrypted" if _LOCKED.search(errors) else "not_a_zip", file=shown)
    return out


def _outputs(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what it writes until it ends, a cap is passed, or time is up (the caller kills it)."""
    assert process.stdout is not None and process.stderr is not None
    kept: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    caps = {process.stdout: MAX_OUTPUT_BYTES, process.stderr: _MAX_ERRORS}
    deadline = time.monotonic() + WALL_SECONDS
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                data = os.read(key.fd, 1 << 16)
                kept[stream] += data
                if not data:
                    selector.unregister(stream)
                if len(kept[stream]) > caps[stream]:
                    return bytes(kept[process.stdout]), bytes(kept[process.stderr])
        if not selector.get_map():
            process.wait()  # it has closed both: its own exit status counts, not our kill
    return bytes(kept[process.stdout]), bytes(kept[process.stderr])


def _is_locked_rar(archive: BinaryIO) -> bool:
    """Return whether a RAR of version 4 is under a password: libarchive hands out its ciphertext.

    Source: unrar's technote; each block is CRC, type, flags, size, for files the packed size.
    """
    locked = False
    if archive.read(7) == b"Rar!\x1a\x07\x00":
        for _ in range(10_000):
            head = archive.read(11)
            if len(head) < 7 or locked:
                break
            _, kind, flags, size = struct.unpack("<HBHH", head[:7])
            locked = (kind == 0x74 and flags & 0x04 != 0) or (kind == 0x73 and flags & 0x80 != 0)
            more = int.from_bytes(head[7:], "little") if flags & 0x8000 else 0
            if size < 7:
                break
            archive.seek(size + more - len(head), os.SEEK_CUR)
    archive.seek(0)
    return locked


def _on_a_descriptor(archive: BinaryIO) -> IO[bytes]:
    """A file that bsdtar can seek in; an archive out of an archive lies in memory if it can."""
    try:
        descriptor = os.dup(archive.fileno())
        os.lseek(descriptor, 0, os.SEEK_SET)  # a buffered stream only pretends to have sought
        return os.fdopen(descriptor, "rb")
    except OSError:  # io.UnsupportedOperation is one
        pass
    copy: IO[bytes]
    if sys.platform == "linux":
        copy = os.fdopen(os.memfd_create("archive"), "w+b")
    else:
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    copy.write(archive.read())
    copy.flush()
    copy.seek(0)
    return copy


_FOREIGN = (_RAR, b"7z\xbc\xaf\x27\x1c")
_USTAR = 257  # where a tar says so in its first header


def open_packed(source: Path | bytes, shown: str) -> Tree:
    """List the archive at a path, or one that lies in memory; ``shown`` names it in messages.

    Raises:
        RefusedError: no regular file, no archive, damaged, or a cap is passed.
    """
    stream: BinaryIO
    if isinstance(source, bytes):
        stream = io.BytesIO(source)
    else:
        stream = os.fdopen(open_regular(source, shown), "rb")
    try:
        head = stream.read(512)
        stream.seek(0)
        if is_foreign(head):
            with stream:
                tar = as_tar(stream, shown)
            return TarTree(CappedReader(io.BytesIO(tar), shown, MAX_UNPACKED_BYTES), shown)
        if is_tar(head, shown):
            return TarTree(CappedReader(stream, shown, MAX_UNPACKED_BYTES), shown)
        return ZipTree(stream, shown)
    except BaseException:
        stream.close()
        raise


def is_tar(head: bytes, name: str) -> bool:
    """Return whether an archive that begins with ``head`` is a tar, packed or not."""
    if packing(head) or head[_USTAR : _USTAR + 5] == b"ustar":
        return True
    return name.lower().endswith(".tar") and not head.startswith(b"PK")


def is_foreign(head: bytes) -> bool:
    """Return whether an archive that begins with ``head`` is a RAR or 7z."""
    return head.startswith(_FOREIGN)

"""RAR and 7z through `bsdtar`, where it is installed: their members come as a tar on stdout.

`bsdtar -c @-` reads an archive on its standard input and writes it again as a tar: no name of a
member is ever an argument, and nothing touches the disk. The process is confined (see
``sandbox.confine``), its time and its output are capped, and its tar is walked like any other.
Source: bsdtar(1), libarchive 3.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from typing import IO, BinaryIO

from autograder.course.labfile import ROOT
from autograder.intake.decode import RefusedError
from autograder.sandbox import spawned

CPU_SECONDS = 20
WALL_SECONDS = 60.0
MEMORY_BYTES = 1 << 30
MAX_OUTPUT_BYTES = 64 << 20
_MAX_ERRORS = 1 << 16

# Rubbish of tools is not unpacked; what counts as a file of the hand-in is decided as elsewhere.
_RUBBISH = (".git", ".venv", "__pycache__", "__MACOSX", ".ipynb_checkpoints")

_LOCKED = re.compile(rb"passphrase|password|encrypt", re.IGNORECASE)


def program() -> str | None:
    """Where `bsdtar` is, or None."""
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
    with _on_a_descriptor(archive) as stdin:
        command = [found, "-c", "-f", "-", "--format", "pax"]
        for name in _RUBBISH:
            command += ["--exclude", name]
        limits = (str(CPU_SECONDS), str(MEMORY_BYTES))
        process = subprocess.Popen(
            # Limits are set in a process of their own: between fork and exec in ours that is
            # not safe while other threads run.
            spawned.command("autograder.sandbox.confine", ROOT, *limits, *command, "@-"),
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
    if _LOCKED.search(errors):
        raise RefusedError("encrypted", file=shown)
    if status != 0:  # what came out may end in the middle of a file
        raise RefusedError("not_a_zip", file=shown)
    return out


def _outputs(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What it writes until it ends, a cap is passed, or time is up (the caller kills it)."""
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
    """Whether a RAR of version 4 is under a password: libarchive hands out its ciphertext.

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

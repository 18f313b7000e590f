"""Archives for tests of intake, built in memory, honest and hostile ones."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from autograder.course.messages import render
from autograder.course.records import Lab, Limits, Submission, Text
from autograder.intake.listing import find
from autograder.intake.reading import read
from autograder.intake.tree import Entry

LAB = Lab(
    "lab2", Path("lab2"), Text("Lab", "实验"), ("attention.py", "mlp.py"), (), (), Limits(), ()
)
GOOD = {"attention.py": b"A = 1\n", "mlp.py": b"M = 2\n"}
RIGHT = {"attention.py": "A = 1\n", "mlp.py": "M = 2\n"}
MIB = 1 << 20


def under(prefix: str, files: Mapping[str, bytes] = GOOD) -> dict[str, bytes]:
    """The files inside a folder."""
    return {f"{prefix}/{name}": data for name, data in files.items()}


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def header(name: str, **values: object) -> tarfile.TarInfo:
    """A header of a tar with these fields set."""
    info = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(info, key, value)
    return info


def tarred(
    files: Mapping[str, bytes], *extra: tarfile.TarInfo, mode: str = "w", form: int = 2
) -> bytes:
    """A tar, packed as ``mode`` says; ``extra`` members have no data."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            archive.addfile(header(name, size=len(data)), io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return stream.getvalue()


def rar(files: Mapping[str, bytes], flags: int = 0) -> bytes:
    """A RAR of version 4 with its members stored."""

    def block(kind: int, bits: int, body: bytes, data: bytes = b"") -> bytes:
        head = struct.pack("<BHH", kind, bits, 7 + len(body)) + body
        return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head + data

    out = b"Rar!\x1a\x07\x00" + block(0x73, 0, bytes(6))
    for name, data in files.items():
        raw, size = name.encode("utf-8", "surrogateescape"), len(data)
        sizes = struct.pack("<IIBII", size, size, 3, zlib.crc32(data), 0x5A210000)
        body = sizes + struct.pack("<BBHI", 20, 0x30, len(raw), 0o100644) + raw
        out += block(0x74, 0x8000 | flags, body, data)
    return out + block(0x7B, 0x4000, b"")


def notebook(*cells: str, **changes: object) -> bytes:
    """A notebook with these code cells."""
    listed = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": one}
        for one in cells
    ]
    whole = {"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **changes}
    return json.dumps(whole).encode()


def placed(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def laid(root: Path, files: Mapping[str, bytes]) -> Path:
    """Files on disk."""
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        placed(root / name, data)
    return root


def taken(path: Path) -> Submission:
    """Read one hand-in; every message renders in both languages."""
    return checked(read(Entry("someone", path), LAB))


def checked(submission: Submission) -> Submission:
    for message in (*submission.problems.values(), *submission.notes):
        for language in ("en", "zh"):
            assert render(message, language)
    if "" not in submission.problems:
        assert set(submission.files) | set(submission.problems) == set(LAB.files)
    assert submission.origin.students
    return submission


def problem(path: Path, file: str = "attention.py") -> str:
    """The problem with ``file``, in English, after its key."""
    message = taken(path).problems[file]
    return f"{message.key.removeprefix('intake.')}: {render(message, 'en')}"


def class_of(source: Path, pattern: str | None = None) -> dict[str, Submission]:
    """A whole class by id, read."""
    return {one.student: checked(read(one, LAB)) for one in find(source, LAB, pattern)}


def keys(messages: Iterable[object]) -> list[str]:
    """The keys of messages, without their area."""
    return [str(getattr(one, "key", "")).removeprefix("intake.") for one in messages]


def every_way(tmp_path: Path, files: Mapping[str, bytes]) -> list[Path]:
    """The same class as a folder, a zip, a tar and packed tars."""
    ways = [laid(tmp_path / "folder", files), placed(tmp_path / "zip.zip", zipped(files))]
    for mode, name in (("w", "tar"), ("w:gz", "tar.gz"), ("w:xz", "tar.xz"), ("w:bz2", "tbz2")):
        ways.append(placed(tmp_path / f"class.{name}", tarred(files, mode=mode)))
    return ways

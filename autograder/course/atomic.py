"""Writes a file whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def write_atomic(
    path: Path,
    text: str | bytes | Iterable[str | bytes],
    *,
    durable: bool = False,
    private: bool = False,
) -> None:
    """Write ``text``, whole or in pieces, as :func:`writing` does."""
    with writing(path, durable=durable, private=private) as write:
        for piece in (text,) if isinstance(text, (str, bytes)) else text:
            write(piece)


@contextlib.contextmanager
def writing(
    path: Path, *, durable: bool = False, private: bool = False
) -> Iterator[Callable[[str | bytes], object]]:
    """Write what is given piece by piece beside ``path``, and move it there at the end.

    So nobody ever reads half a file; one that is ``durable`` is whole after a power cut, too, and
    one that is ``private`` is its owner's alone.
    Text is UTF-8, and a lone surrogate, which UTF-8 cannot hold, is written as ``\\udXXX``
    (right in JSON). Bytes stay as they are. Whatever is raised meanwhile leaves ``path`` as it was.
    """
    # One run at a time writes there, so what a killed one has left is written over.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb", opener=_privately if private else None) as stream:
            yield lambda piece: stream.write(piece if isinstance(piece, bytes) else _utf8(piece))
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


# Zip archives that are whole or not there, and equal for equal content.

_BEGIN = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can tell
_FILE = 0o100644 << 16


@contextmanager
def written(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive to :func:`put` members into; it stands at ``path`` only when all went well."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            yield archive
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add a file; without times or owners, which would differ from run to run."""
    member = zipfile.ZipInfo(name, _BEGIN)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = _FILE
    archive.writestr(member, data)


def packed(files: Mapping[str, bytes]) -> bytes:
    """A small archive of these files, in memory."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            put(archive, name, data)
    return stream.getvalue()

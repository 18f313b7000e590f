"""Zip archives that are whole or not there, and equal for equal content."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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

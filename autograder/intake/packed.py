"""Archives of every kind, told apart by how they begin: a renamed RAR is no zip."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

from autograder.intake import bsdtar
from autograder.intake.archive import ZipTree
from autograder.intake.folder import open_regular
from autograder.intake.inflow import Inflow, packing
from autograder.intake.tar import MAX_UNPACKED_BYTES, TarTree
from autograder.intake.tree import Tree

_FOREIGN = (b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c")
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
        if head.startswith(_FOREIGN):
            with stream:
                tar = bsdtar.as_tar(stream, shown)
            return TarTree(Inflow(io.BytesIO(tar), shown, MAX_UNPACKED_BYTES), shown)
        if is_tar(head, shown):
            return TarTree(Inflow(stream, shown, MAX_UNPACKED_BYTES), shown)
        return ZipTree(stream, shown)
    except BaseException:
        stream.close()
        raise


def is_tar(head: bytes, name: str) -> bool:
    """Whether an archive that begins with ``head`` is a tar, packed or not."""
    if packing(head) or head[_USTAR : _USTAR + 5] == b"ustar":
        return True
    return name.lower().endswith(".tar") and not head.startswith(b"PK")


def is_foreign(path: Path) -> bool:
    """Whether the file is a RAR or 7z, which can be a hand-in but not a class.

    Raises:
        RefusedError: no regular file.
    """
    with os.fdopen(open_regular(path, path.name), "rb") as stream:
        return stream.read(8).startswith(_FOREIGN)

"""Folders that a lab lets student code read: copied to where a worker without rights can.

A clone may lie in a home that nobody else may enter, and a worker runs as nobody. So the few
small folders that ``lab.toml`` lists are copied before workers start, and only the copy is on
their list. In process (debugging, building) the folders are read where they are.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autograder.course.labfile import ROOT

_base = [ROOT]


def copied(folders: Sequence[str]) -> tempfile.TemporaryDirectory[str] | None:
    """A copy of these folders (paths inside the project) that everybody may read, nobody write.

    Returns:
        The temporary directory, to be removed by its owner; None for no folders.
    """
    if not folders:
        return None
    # The system's own, not TMPDIR: that one may be private.
    base = Path("/tmp") if Path("/tmp").is_dir() else None
    made = tempfile.TemporaryDirectory(prefix="qwen3-labs-", dir=base)
    for folder in folders:
        shutil.copytree(ROOT / folder, Path(made.name) / folder, copy_function=shutil.copyfile)
    for path in (Path(made.name), *Path(made.name).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o444)
    return made


def hold(base: Path) -> None:
    """From now on folders lie under ``base``: what :func:`copied` made."""
    _base[0] = base


def without_base(text: str) -> str:
    """A text in which listed folders go by their path inside the project, wherever they lie."""
    return text.replace(f"{_base[0]}/", "")


def path_of(folder: str) -> str:
    """The path under which a listed folder can be read in this process."""
    return str(_base[0] / folder)

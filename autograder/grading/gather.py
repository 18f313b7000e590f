"""Brings what parts of a class have left into one output folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from autograder.grading import journal, secret
from autograder.grading.engine import kept_name
from autograder.grading.shards import Part, ShardError

OUTPUTS = ".outputs"


def gather(parts: Mapping[Path, Part], out: Path) -> None:
    """Put the records of all parts, and what hand-ins answered where that was kept, into ``out``.

    So ``out`` is what one run over the whole class would have left: ``grade --resume`` and
    ``rescore`` go on from there. Nothing of a part is changed.

    Raises:
        ShardError: a record is not where the part says.
        OSError: ``out`` cannot be written to.
    """
    for path, part in parts.items():
        (out / journal.FOLDER).mkdir(parents=True, exist_ok=True)
        for student in part.graded:
            name = Path(journal.FOLDER, journal.file_name(student))
            if not _brought(path / name, out / name):
                raise ShardError(f"{path / name}: absent; run this shard again with --resume")
            kept = Path(OUTPUTS, kept_name(student))
            if (path / kept).exists():
                (out / OUTPUTS).mkdir(exist_ok=True)
                _brought(path / kept, out / kept)
        _brought(path / secret.CHECK, out / secret.CHECK)


def _brought(source: Path, target: Path) -> bool:
    """Whether ``source`` was there; a second name of one file costs a large class no space.

    Whoever writes such a file later moves a new one to its place, so the other name keeps what it
    had.
    """
    if not source.exists():
        return False
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)
    # Of two names of one file nothing is moved.
    temporary.unlink(missing_ok=True)
    return True

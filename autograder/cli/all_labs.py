"""``make test`` without ``LAB``: a row per lab, and where to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autograder.course import labfile
from autograder.course.handed_out import is_untouched
from autograder.course.records import ClassRecord, Lab
from autograder.report.overview import LabRow, overview
from autograder.report.rows import rows_of


def run(language: str, tried: Callable[[Lab, Path], ClassRecord]) -> int:
    """Check every lab that was begun, and the first one in any case; print a row for each.

    A lab whose files are all as they were handed out is not run: its audit has proved that it
    gets no point, and starting it would take seconds.

    Returns:
        0 when every lab passes, 1 when not.

    Raises:
        EngineError: nothing could be run.
    """
    rows: list[LabRow] = []
    for path in sorted(labfile.LABS.glob("*/lab.toml")):
        lab = labfile.load(path.parent)
        names = [check.name for check in lab.checks]
        if begun(lab) or not rows:
            rows.append(LabRow(lab, tuple(rows_of(tried(lab, lab.folder), names))))
        else:
            rows.append(LabRow(lab, ()))
    print(overview(rows, language))
    return 0 if all(row.kind == "passed" for row in rows) else 1


def begun(lab: Lab) -> bool:
    """Whether a file of the lab differs from what was handed out."""
    paths = [lab.folder / name for name in lab.files]
    return not all(
        path.is_file() and is_untouched(path.read_text(encoding="utf-8", errors="replace"))
        for path in paths
    )

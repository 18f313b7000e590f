"""The lab for nbgrader: a notebook with one graded cell per exercise, ``nbgrader autograde``."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import run
from benchmarks.others import notebook
from benchmarks.others.sides import SideInput, SideResult, activated, name_of

PACKAGE = "nbgrader"
REQUIREMENTS = (PACKAGE,)

_ASSIGNMENT = "lab"
# A cell may take 30 seconds unless told; the first one imports torch, and the machine may be busy.
_CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "course"
c.Execute.timeout = 300
"""
_CELL = """\
from benchmarks.others.ask import failures

said = failures("{lab}", "{exercise}", {hidden!r})
assert not said, said
"""


class Nbgrader:
    """One command for the whole class: a kernel per hand-in, points in a grade book."""

    def __init__(self, given: SideInput) -> None:
        self._given = given
        source = given.folder / "source" / _ASSIGNMENT
        source.mkdir(parents=True)
        (given.folder / "nbgrader_config.py").write_text(_CONFIG, encoding="utf-8")
        cells = []
        for exercise in given.lab.exercises:
            text = _CELL.format(lab=given.lab.name, exercise=exercise.id, hidden=str(given.hidden))
            marks: dict[str, bool | int] = {
                "grade": True,
                "locked": True,
                "solution": False,
                "task": False,
            }
            marks |= {"schema_version": 3, "points": exercise.points}
            name = name_of(exercise)
            told = {"nbgrader": {**marks, "grade_id": name, "cell_type": "code"}}
            cells.append(notebook.code(text, name, told))
        (source / "lab.ipynb").write_text(notebook.written(cells), encoding="utf-8")
        # No stubs beside it: what lies there replaces what students hand in.
        self._nbgrader("generate_assignment", _ASSIGNMENT)
        shutil.copy(given.folder / "gradebook.db", given.folder / "fresh.db")

    def grade(self, hand_ins: Sequence[Path]) -> SideResult:
        """Each as students hand it in: the released notebook beside their files."""
        folder = self._given.folder
        for name in ("submitted", "autograded"):
            shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copy(folder / "fresh.db", folder / "gradebook.db")
        for path in hand_ins:
            handed_in = folder / "submitted" / path.name / _ASSIGNMENT
            shutil.copytree(path, handed_in)
            shutil.copy(folder / "release" / _ASSIGNMENT / "lab.ipynb", handed_in)
        cpu = self._nbgrader("autograde", _ASSIGNMENT)
        table = folder / "grades.csv"
        self._nbgrader("export", "--to", str(table))
        with table.open(encoding="utf-8", newline="") as file:
            points = {row["student_id"]: round(float(row["score"])) for row in csv.DictReader(file)}
        return SideResult(cpu, points)

    def _nbgrader(self, *arguments: str) -> float:
        command = [str(self._given.python), "-m", "nbgrader", *arguments]
        return run(command, folder=self._given.folder, more=activated(self._given)).cpu

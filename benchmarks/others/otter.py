"""The lab for otter-grader: one test file per exercise, ``otter generate``, ``otter run``."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import run
from benchmarks.others import notebook
from benchmarks.others.sides import SideInput, SideResult, activated, name_of, points_of

PACKAGE = "otter-grader"
REQUIREMENTS = (PACKAGE, "ipykernel")  # its `otter run` starts a kernel, and does not ask for one

_TEST = """\
from otter.test_files import test_case

OK_FORMAT = False
name = "{name}"
points = {points}


@test_case()
def test_exercise():
    from benchmarks.others.ask import failures

    said = failures("{lab}", "{exercise}", {hidden!r})
    assert not said, said
"""


class Otter:
    """One ``otter run`` per hand-in, which is what its container runs, too; without Docker."""

    def __init__(self, given: SideInput) -> None:
        self._given = given
        tests = given.folder / "tests"
        tests.mkdir(parents=True)
        for exercise in given.lab.exercises:
            filled = _TEST.format(
                name=name_of(exercise),
                points=exercise.points,
                lab=given.lab.name,
                exercise=exercise.id,
                hidden=str(given.hidden),
            )
            (tests / f"{name_of(exercise)}.py").write_text(filled, encoding="utf-8")
        self._zip = given.folder / "autograder.zip"
        self._otter("generate", "-t", str(tests), "-o", str(self._zip), "--no-config")

    def grade(self, hand_ins: Sequence[Path]) -> SideResult:
        """Each as a zip with the files and a notebook of one cell: the entry that otter wants."""
        cpu, points = 0.0, {}
        for path in hand_ins:
            out = self._given.folder / "out" / path.name
            out.mkdir(parents=True, exist_ok=True)
            (out / "results.json").unlink(missing_ok=True)
            handed_in = out / "hand_in.zip"
            with zipfile.ZipFile(handed_in, "w") as archive:
                archive.writestr("lab.ipynb", notebook.written([notebook.code("import torch")]))
                for file in self._given.lab.files:
                    archive.write(path / file, file)
            arguments = ["-a", str(self._zip), "-o", str(out), "--no-logo"]
            cpu += self._otter("run", str(handed_in), *arguments)
            points[path.name] = self._points(out / "results.json")
        return SideResult(cpu, points)

    def _otter(self, *arguments: str) -> float:
        command = [str(self._given.python), "-m", "otter", *arguments]
        return run(command, folder=self._given.folder, more=activated(self._given)).cpu

    def _points(self, results: Path) -> int:
        found = json.loads(results.read_text(encoding="utf-8"))["tests"]
        full = {test["name"] for test in found if test.get("score") == test.get("max_score", -1)}
        lab = self._given.lab
        return points_of(lab, (e.id for e in lab.exercises if name_of(e) in full))

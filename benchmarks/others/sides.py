"""The sides of the comparison: what each gets, and ourselves as one of them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autograder.course.records import Exercise, Lab
from benchmarks.measure import run


@dataclass(frozen=True)
class SideInput:
    """The lab, its hidden cases, the interpreter of the side and an empty folder for it."""

    lab: Lab
    hidden: Path
    python: Path
    folder: Path


@dataclass(frozen=True)
class SideResult:
    """CPU seconds of all hand-ins together, and the points of each by its folder's name.

    Points are those of the exercises that passed whole: what every side can say.
    """

    cpu: float
    points: dict[str, int]


def activated(given: SideInput) -> dict[str, str]:
    """Environment variables as in a shell where the side's environment is active.

    Whatever this machine's user has configured for Jupyter takes no part.
    """
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    more = {name: str(given.folder / name.lower()) for name in names}
    return more | {"PATH": f"{given.python.parent}{os.pathsep}{os.environ['PATH']}"}


class Side(Protocol):
    """A tool with the lab in the form that it wants."""

    def grade(self, hand_ins: Sequence[Path]) -> SideResult:
        """Grade hand-ins, each a folder with the lab's files."""
        ...


def name_of(exercise: Exercise) -> str:
    """A name for the exercise that is an identifier, such as ``rotate_half``."""
    return exercise.id.rpartition(".")[2]


def points_of(lab: Lab, passed: Iterable[str]) -> int:
    """Points of the exercises with these ids."""
    found = set(passed)
    return sum(exercise.points for exercise in lab.exercises if exercise.id in found)


class Ours:
    """The command line program on a folder of hand-ins.

    Args:
        given: see :class:`SideInput`.
        secret: file that the hidden cases are drawn from.
    """

    def __init__(self, given: SideInput, secret: Path) -> None:
        self._given, self._secret = given, secret

    def grade(self, hand_ins: Sequence[Path]) -> SideResult:
        """As any class: workers, isolation, diagnosis and reports included."""
        handed_in, out = self._given.folder / "class", self._given.folder / "out"
        shutil.rmtree(handed_in, ignore_errors=True)
        for path in hand_ins:
            shutil.copytree(path, handed_in / path.name)
        (out / "class.json").unlink(missing_ok=True)
        command = [str(self._given.python), "-m", "autograder", "grade", str(handed_in)]
        command += ["--lab", self._given.lab.name, "--out", str(out), "--again"]
        # 1: points that wait for a person, such as those of a check on real weights.
        done = run([*command, "--secret-file", str(self._secret)], statuses=(0, 1))
        record = json.loads((out / "class.json").read_text(encoding="utf-8"))
        points = {one["student"]: self._points(one["results"]) for one in record["hand_ins"]}
        if set(points) != {path.name for path in hand_ins}:
            raise RuntimeError(f"not every hand-in was graded: {sorted(points)}")
        return SideResult(done.cpu, points)

    def _points(self, results: list[dict[str, str]]) -> int:
        lab = self._given.lab
        passed = {result["check"] for result in results if result["outcome"] == "passed"}
        whole = (e.id for e in lab.exercises if {c.name for c in e.checks if c.points} <= passed)
        return points_of(lab, whole)


def build_hidden(lab: Lab, secret: Path, folder: Path) -> Path:
    """Build the hidden cases of a class whose secret is in the file ``secret``."""
    from autograder.grading import hidden_cases as secrets

    out = folder / "hidden.safetensors"
    command = [sys.executable, "-m", "autograder.reference.build", "hidden", lab.name, str(out)]
    run(command, stdin=secrets.find(secret, folder).hex() + "\n")
    return out

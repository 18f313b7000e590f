"""The sides of the comparison, each a command that is measured from outside."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.records import Lab
from autograder.grading import hidden_cases
from benchmarks import hand_ins, watching
from benchmarks.measure import Run, run

PYTHON = sys.executable
SECRET = "a secret that only benchmarks use\n"


class BenchmarkError(RuntimeError):
    """The figures would not mean what they say; the text says why."""


class Sides:
    """Everything that is measured for one lab, in a folder that is thrown away.

    Args:
        lab: what is graded.
        folder: empty; holds the class, the secret, the reports.
        size: hand-ins of the class, a multiple of 10.
    """

    def __init__(self, lab: Lab, folder: Path, size: int) -> None:
        self.lab = lab
        self._folder = folder
        self._size = size
        self._solution = SOLUTIONS / lab.name
        hand_ins.make(folder / "class", lab, size)
        self._secret = folder / "secret"
        self._secret.write_text(SECRET)
        # Builds the hidden cases and the byte code, so that no measured run does.
        self._grade(self._solution)
        (self._hidden,) = (folder / "out").rglob("*.safetensors")
        self._only: tuple[str, ...] = ()
        self._only = self._without_ranks()

    def import_torch(self) -> float:
        """CPU seconds of ``import torch`` in a fresh process: the unit of three ratios."""
        return run([PYTHON, "-c", "import torch"]).cpu

    def ours(self) -> dict[str, Any]:
        """The whole command line program on the whole class; ``cpu`` is seconds per hand-in.

        Checks that ask for ranks are left out, here and of every side; ``cpu_with_ranks`` is
        the same with them.
        """
        before = self._cached()
        more = {}
        if self._only:
            whole = self._grade(self._folder / "class")
            more["cpu_with_ranks"] = whole.cpu / self._size
        finished = self._grade(self._folder / "class", self._only)
        if self._cached() != before:
            raise BenchmarkError("the reference process ran within a measured run")
        record = json.loads((self._folder / "out" / "class.json").read_text(encoding="utf-8"))
        return more | {
            "cpu": finished.cpu / self._size,
            "wall": finished.wall / self._size,
            "cases": record["cases"],
            "checks": max(_passed(hand_in) for hand_in in record["hand_ins"]),
            "isolation": record["isolation"]["level"],
            "as_expected": self._as_expected(record),
        }

    def bare(self) -> dict[str, Any]:
        """Direct calls of everything a right hand-in is asked, in one warm process."""
        out = self._folder / "bare.json"
        run([*self._pytest(self._solution), "-p", "benchmarks.bare", "--bare-out", str(out)])
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found

    def stripped(self) -> float:
        """The same class asked and compared by one process, see there; CPU seconds per hand-in."""
        class_folder = str(self._folder / "class")
        return (
            self._stripped(str(self._hidden), class_folder, ",".join(self._only)).cpu / self._size
        )

    def stripped_test(self) -> dict[str, float]:
        """The least that ``make test`` and ``watch`` can cost, asked and compared as above.

        ``cpu``: seconds of a process that imports torch and runs the public checks once;
        ``verdict``: seconds on the wall of the same in a process that has run them before.
        """
        runs = []
        for count in (1, 4):
            folder = self._folder / f"right_{count}"
            for number in range(count):
                shutil.copytree(self._solution, folder / str(number), dirs_exist_ok=True)
            runs.append(self._stripped("", str(folder)))
        cold, warm = runs
        return {"cpu": cold.cpu, "verdict": float(warm.output.split()[-1])}

    def make_test(self) -> float:
        """Run ``make test`` on the solution; CPU seconds."""
        command = [PYTHON, "-m", "autograder", "test", "--lab", self.lab.name]
        # 1: a check that waits for real weights is not passed without them.
        return run([*command, "--folder", str(self._solution)], statuses=(0, 1)).cpu

    def watch(self) -> dict[str, float]:
        """Seconds on the wall from a save to its verdict, and of ``import torch`` beside it."""
        unit = median(watching.import_torch() for _ in range(3))
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            verdict = watching.save_to_verdict(self.lab, Path(folder) / "saved")
        return {"verdict": verdict, "import_torch": unit}

    def reference(self) -> float:
        """The process that builds the hidden cases, by itself; CPU seconds."""
        out = self._folder / "reference.safetensors"
        key = hidden_cases.find(self._secret, self._folder).hex()
        command = [PYTHON, "-m", "autograder.reference.build", "hidden"]
        return run([*command, self.lab.name, str(out)], stdin=key + "\n").cpu

    def _stripped(self, *arguments: str) -> Run:
        return run([PYTHON, "-m", "benchmarks.stripped", self.lab.name, *arguments])

    def _without_ranks(self) -> tuple[str, ...]:
        """The checks that ask for no ranks, nor need one that does; empty where none does."""
        texts = (path.read_text(encoding="utf-8") for path in self.lab.folder.rglob("test_*.py"))
        apart = set(self.bare()["rank_checks"]) if any(".ranks(" in t for t in texts) else set()
        alone = []
        for check in self.lab.checks if apart else ():
            if check.name in apart or apart.intersection(check.needs):
                apart.add(check.name)
            else:
                alone.append(check.name)
        return tuple(alone)

    def _grade(self, submissions: Path, only: tuple[str, ...] = ()) -> Run:
        module = ["benchmarks.without_ranks", ",".join(only)] if only else ["autograder"]
        command = [PYTHON, "-m", *module, "grade", str(submissions)]
        command += ["--lab", self.lab.name, "--secret-file", str(self._secret)]
        record = self._folder / "out" / "class.json"
        record.unlink(missing_ok=True)
        # 1: points that wait for a person, such as those of a check on real weights.
        finished = run([*command, "--again", "--out", str(record.parent)], statuses=(0, 1))
        if not record.exists():  # 1 is a traceback's exit status, too
            raise BenchmarkError(f"grading did not finish: {finished.output.strip()[-500:]}")
        return finished

    def _pytest(self, hand_in: Path) -> list[str]:
        command = [PYTHON, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        command += [str(self.lab.folder / "checks"), "-p", "autograder.checks.plugin"]
        command += ["--lab-folder", str(self.lab.folder), "--hidden-cases", str(self._hidden)]
        command += ["--only", ",".join(self._only)] if self._only else []
        return [*command, "--hand-in", str(hand_in), "--rootdir", str(ROOT)]

    def _cached(self) -> list[tuple[str, int, int]]:
        """The state of the hidden cases, which changes when they are built anew."""
        found = [(path.name, path.stat()) for path in (self._folder / "out").rglob("*.safetensors")]
        return [(name, stat.st_ino, stat.st_mtime_ns) for name, stat in found]

    def _as_expected(self, record: dict[str, Any]) -> dict[str, int]:
        """How many of each kind came out as they should; a wrong one has to lose points.

        Raises:
            BenchmarkError: a right hand-in lost points, or a stub has some.
        """
        good = dict.fromkeys(hand_ins.KINDS, 0)
        for hand_in in record["hand_ins"]:
            kind, score = hand_in["student"].split("_")[0], hand_in["score"]
            full = score["earned"] == score["gradable"] > 0
            zero = score["earned"] == 0
            as_expected = {"right": full, "wrong": not full and not zero, "stub": zero}[kind]
            if not as_expected and kind != "wrong":
                raise BenchmarkError(f"{hand_in['student']} was graded {score}")
            good[kind] += as_expected
        return good


def _passed(hand_in: dict[str, Any]) -> int:
    return sum(result["outcome"] == "passed" for result in hand_in["results"])

"""Costs of diagnosis: CPU per right and per wrong hand-in, with it and without it.

``make bench-diagnosis`` prints two ratios; a right hand-in must not get dearer (1.0), a wrong one
not more than twice as dear (2.0). Each figure is the difference of a large class and a small one,
so that starting up does not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autograder.course import labfile
from autograder.course.records import Submission
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.worker.loader import read_sources
from benchmarks import hand_ins, measure

SMALL, LARGE = 20, 80
ROUNDS = 3


def grade(lab_name: str, folders: Sequence[str], diagnose: bool) -> None:
    """Grade hand-ins on the public cases, one at a time."""
    lab = labfile.load(labfile.find_lab(lab_name))
    files = ((Path(folder).name, read_sources(Path(folder), lab.files)[0]) for folder in folders)
    with Engine(lab, Options(diagnose=diagnose, replay=False)) as engine:
        engine.wait_ready()
        for _ in engine.grade(Submission(name, text) for name, text in files):
            pass


def cost(lab: str, folders: Sequence[Path], diagnose: bool) -> float:
    """CPU milliseconds per hand-in."""

    def cpu(count: int) -> float:
        task = {"lab": lab, "folders": [str(p) for p in folders[:count]], "diagnose": diagnose}
        command = [sys.executable, "-m", "benchmarks.diagnosis", json.dumps(task)]
        return measure.run(command).cpu

    return 1000 * (cpu(LARGE) - cpu(SMALL)) / (LARGE - SMALL)


def main(argv: list[str]) -> int:
    """Measure, or be the process that is measured."""
    if len(argv) > 1 and argv[1].startswith("{"):
        task = json.loads(argv[1])
        grade(task["lab"], task["folders"], task["diagnose"])
        return 0
    measure.adopt_orphans()
    lab = labfile.load(labfile.find_lab(argv[1] if len(argv) > 1 else "2"))
    worst = {"right": 0.0, "wrong": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        made = hand_ins.make(Path(folder), lab, 300)
        for number in range(ROUNDS):
            for kind, most in worst.items():
                without, with_it = (cost(lab.name, made[kind], on) for on in (False, True))
                ratio = with_it / without
                print(f"{number + 1}. {kind}: {without:.1f} ms, {with_it:.1f} ms with diagnosis")
                worst[kind] = max(most, ratio)
    for kind, ratio in worst.items():
        print(f"diagnosis_over_grading_{kind} {ratio:.2f} (worst of {ROUNDS} rounds)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

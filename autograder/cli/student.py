"""``test`` and ``debug``: a student's own files on the public cases."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from autograder import intake
from autograder.course import labfile
from autograder.course.records import ClassRecord, Lab
from autograder.grading import prepare
from autograder.grading.engine import Engine, EngineError, Options
from autograder.grading.prepare import RealWeights
from autograder.report.board import scoreboard


def test(lab_name: str, folder: Path | None, match: str, weights: str | None, language: str) -> int:
    """Check a student's files in the same jailed worker that grading uses.

    Returns:
        0 when every check passed, 1 when not, 2 when nothing could be run.
    """
    lab = labfile.load(labfile.find_lab(lab_name))
    chosen = _chosen(lab, match)
    shown = folder or lab.folder
    real = _real(lab, weights)
    submission = intake.read(intake.Entry("you", shown), lab)
    try:
        with Engine(lab, Options(checks=chosen, shown_folder=str(shown), real=real)) as engine:
            engine.wait_ready()
            (hand_in,) = engine.grade(iter([submission]))
            record = ClassRecord(lab, engine.isolation, {}, (hand_in,))
    except EngineError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    text, passed = scoreboard(record, chosen, language)
    print(text)
    return 0 if passed else 1


def _real(lab: Lab, weights: str | None) -> RealWeights | None:
    if not weights:
        return None
    try:
        # Beside nothing of the student's: the file holds only what the checks compare with.
        folder = Path(tempfile.mkdtemp(prefix="qwen3-labs-"))
        return prepare.real_weights(lab.name, folder, weights)
    except prepare.PrepareError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return None


def debug(lab_name: str, folder: Path | None, match: str) -> int:
    """Run the checks under plain pytest in one process, student exceptions and all."""
    lab = labfile.load(labfile.find_lab(lab_name))
    command = [sys.executable, "-m", "pytest", str(lab.folder / "checks"), "--capture=no"]
    command += ["-p", "autograder.harness.plugin", "--lab-folder", str(lab.folder), "-x", "-q"]
    command += ["-c", os.devnull, "--rootdir", str(lab.folder), "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "--timeout=0", "--breakpoints"]
    command += ["--hand-in", str(folder or lab.folder)]
    command += ["--only", ",".join(_chosen(lab, match))]
    return subprocess.call(command, cwd=labfile.ROOT)


def _chosen(lab: Lab, match: str) -> tuple[str, ...]:
    """Names of the checks that ``-k`` asks for, with what they need; all for an empty one.

    Raises:
        LabError: nothing goes by that name (lists the exercises).
    """
    wanted = {
        check.name
        for exercise in lab.exercises
        for check in exercise.checks
        if match in exercise.id or match in check.name
    }
    if not wanted:
        known = ", ".join(exercise.id for exercise in lab.exercises)
        raise labfile.LabError(f"K={match}: no exercise or check is named so; exercises: {known}")
    needed = set(wanted)
    for check in reversed(lab.checks):
        if check.name in needed:
            needed.update(check.needs)
    return tuple(check.name for check in lab.checks if check.name in needed)

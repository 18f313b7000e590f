"""The house is in order: types hold, and every lab keeps what is promised of it."""

from __future__ import annotations

import subprocess
import sys

from autograder.course import labfile

LABS = list(labfile.LABS.glob("*/lab.toml"))


def test_types_hold() -> None:
    expect_success("mypy")


def test_every_lab_keeps_its_promises() -> None:
    told = expect_success("autograder", "audit", "--jobs", "1")
    assert told.count("promises kept, 0 broken, 0 not proved") == len(LABS)


def expect_success(*module: str) -> str:
    command = [sys.executable, "-m", *module]
    done = subprocess.run(command, cwd=labfile.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

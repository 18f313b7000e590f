"""The house is in order: types hold, and every lab keeps what is promised of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autograder.course import labfile
from tests.labs import ALWAYS, changed_labs

NAMES = sorted(path.parent.name for path in labfile.LABS.glob("*/lab.toml"))
AT_ONCE = [name for name in NAMES if name.split("_")[0] in {ALWAYS, *changed_labs()}]
AUDIT = (
    "import sys; from autograder.authoring import audit; sys.exit(audit.run_all(1, sys.argv[1:]))"
)


def test_types_hold() -> None:
    files = ("autograder", "benchmarks", "labs", "solutions", "tools")
    expect_success("-m", "mypy", *files)


@pytest.mark.slow
def test_types_of_tests_hold_as_well() -> None:
    expect_success("-m", "mypy")


@pytest.mark.parametrize(
    "labs",
    [
        pytest.param(AT_ONCE, id="at once"),
        pytest.param(
            [name for name in NAMES if name not in AT_ONCE], id="others", marks=pytest.mark.slow
        ),
    ],
)
def test_every_lab_keeps_its_promises(labs: list[str]) -> None:
    told = expect_success("-c", AUDIT, *labs) if labs else ""
    assert told.count("promises kept, 0 broken, 0 not proved") == len(labs)


def expect_success(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=labfile.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

"""The house is in order: types hold, and every lab keeps what is promised of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autograder.authoring import audit
from autograder.course import labfile

LABS = [path.parent.name for path in sorted(labfile.LABS.glob("*/lab.toml"))]


def test_types_hold() -> None:
    command = [sys.executable, "-m", "mypy"]
    done = subprocess.run(command, cwd=labfile.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_keeps_its_promises(lab: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.run(lab) == 0, capsys.readouterr().out

"""Plain ``pytest`` in the folder of a lab: the checks of ``make test``, an item per case."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.cli import student
from autograder.course import labfile
from autograder.course.labfile import ROOT

LAB = "lab1_foundations"
# As an entry point does it, whether this environment has ours or not.
PLUGINS = ("-p", "pytest_timeout", "-p", "autograder.cli.pytest_plugin")
WRONG = """

_right = softmax

def softmax(x, dim):
    if x.dtype == torch.bfloat16:
        raise ValueError("not for these")
    return x if x.dtype == torch.float16 else _right(x, dim)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A course's folder with the first lab, solved but for numbers of few bits."""
    ini = '[tool.pytest.ini_options]\ntestpaths = ["labs"]\naddopts = ["--import-mode=importlib"]\n'
    (tmp_path / "pyproject.toml").write_text(ini)
    folder = tmp_path / "labs" / LAB
    shutil.copytree(ROOT / "labs" / LAB, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "solutions" / LAB).glob("*.py"):
        shutil.copy(path, folder)
    with (folder / "attention.py").open("a") as file:
        file.write(WRONG)
    return folder


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, *arguments],
        cwd=folder, capture_output=True, text=True, env=clean | {"LAB_LANG": "en"} | environment,
    )  # fmt: skip


def outcomes(said: str) -> dict[str, set[str]]:
    """By check, how its cases ended."""
    found: dict[str, set[str]] = {}
    for check, outcome in re.findall(r"::(test_\w+)\[\S+\] (PASSED|FAILED|SKIPPED)", said):
        found.setdefault(check, set()).add(outcome)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("solved", [True, False])
def test_it_says_of_every_check_what_make_test_says(lab: Path, solved: bool) -> None:
    if not solved:  # one lacks its file, the other is as it was handed out
        (lab / "mlp.py").unlink()
        shutil.copy(ROOT / "labs" / LAB / "attention.py", lab)
    done = run(lab, "-v")
    assert done.returncode == 1
    (board,) = student.tried(labfile.load(lab), lab).hand_ins
    passed = {one.check: one.outcome == "passed" for one in board.results}
    assert {check: seen == {"PASSED"} for check, seen in outcomes(done.stdout).items()} == passed


def test_a_failure_is_our_sentence_and_the_students_line(lab: Path) -> None:
    done = run(lab, "-rA")
    assert "your code raised ValueError: not for these" in done.stdout
    assert re.search(r"attention\.py:\d+  raise ValueError", done.stdout)
    for ours in ("Traceback", "pytest_plugin", "runtest", "CheckNotPassed", "autograder/"):
        assert ours not in done.stdout + done.stderr
    assert "你的代码" in run(lab, LAB_LANG="zh", PYTHONIOENCODING="utf-8").stdout


def test_every_case_is_an_item_and_tells_of_itself(lab: Path) -> None:
    said = run(lab, "-v", "-k", "test_softmax_axes or test_softmax_dtype").stdout
    cases = dict(re.findall(r"::test_softmax_\w+\[(\S+)\] (PASSED|FAILED)", said))
    assert len(cases) > 3 and cases["softmax_bfloat16"] == "FAILED"
    assert cases["softmax_axes"] == "PASSED"


@pytest.mark.slow
def test_options_that_everybody_knows_work(lab: Path) -> None:
    listed = run(lab, "-q", "--collect-only")
    assert listed.returncode == 0 and listed.stdout.count("::test_") > 50
    assert "your code" not in listed.stdout
    first = run(lab, "-q", "-x")
    assert "1 failed" in first.stdout and "stopping after 1" in first.stdout
    assert run(lab, "-q", "-k", "silu").returncode == 0  # by the name of an exercise
    again = run(lab, "-q", "--lf").stdout
    assert "passed" not in again and "failed" in again
    whole = run(lab.parents[1], "-q", "--collect-only")
    assert whole.stdout.count("::test_") == listed.stdout.count("::test_")


@pytest.mark.slow
def test_what_waits_is_skipped_beside_its_reason_and_fails_alone(lab: Path) -> None:
    with (lab / "attention.py").open("a") as file:
        file.write("\n\ndef causal_mask(q_len, kv_len):\n    return 1\n")
    said = run(lab, "-v", "-k", "causal_mask").stdout
    seen = outcomes(said)
    assert {"FAILED"} in seen.values() and {"SKIPPED"} in seen.values()
    waiting = next(check for check, ends in seen.items() if ends == {"SKIPPED"})
    (place,) = set(re.findall(rf"(\S+\.py::{waiting})\[", said))
    assert run(lab, "-q", place).returncode == 1


def test_it_imports_nothing_of_ours_in_other_suites(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "test_own.py").write_text(
        "import sys\ndef test_own():\n"
        "    ours = {n for n in sys.modules if n.startswith('autograder')}\n"
        "    assert ours == {'autograder', 'autograder.cli', 'autograder.cli.pytest_plugin'}\n"
    )
    done = run(tmp_path, "-q")
    assert done.returncode == 0, done.stdout

"""What GitHub runs: the steps of the workflow and Classroom 50's script, as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring import release
from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.records import CheckResult, HandIn, Outcome
from autograder.exports import github
from autograder.report import scoreboard
from tests import hand_ins
from tests.report.test_report import ALL_PASSED, CLASS, LAB, MIXED

yaml: Any = import_module("yaml")  # it has no types of its own


def told(hand_in: HandIn, language: str = "en") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        scoreboard.text_of(replace(CLASS, hand_ins=(hand_in,)), language)
    )
    assert sum(test["score"] for test in document["tests"]) == document["score"]
    assert sum(test["max-score"] for test in document["tests"]) == document["max-score"]
    for test in document["tests"]:
        assert type(test["score"]) is int and type(test["max-score"]) is int
        assert test["passed"] or (test["message"] and test["score"] == 0)
        assert len(test.get("output", "")) <= 500
    return document


def test_a_right_hand_in_has_every_point() -> None:
    document = told(ALL_PASSED)
    assert all(test["passed"] for test in document["tests"])
    assert document["score"] == document["max-score"] == 100


def test_what_could_not_be_checked_is_no_zero() -> None:
    document = told(MIXED)
    assert (document["score"], document["max-score"]) == (20, 80)


def test_odd_output_is_cut_and_harmless() -> None:
    odd = "\x1b[31m\ud800" + "x" * 2000
    result = CheckResult(LAB.checks[0].name, Outcome.FAILED, prints=odd)
    (hand_in,) = (HandIn("a", (result,)),)
    record = replace(CLASS, hand_ins=(hand_in,))
    (test,) = json.loads(scoreboard.text_of(record, "zh"))["tests"]
    assert len(test["output"]) <= 500 and set(test["output"]) == set("x\n[…]")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's repository, made from the template that an instructor has made."""
    root = tmp_path_factory.mktemp("github") / "repository"
    for path, blob in release.sources(labfile.ROOT).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(blob)
    assert main(["export", "github", "--lab", "2", "--to", str(root), "--lang", "en"]) == 0
    return root


def steps(repository: Path) -> dict[str, dict[str, Any]]:
    text = (repository / ".github/workflows/lab2.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    return {step["name"]: step for step in job["steps"]}


PYTHON = """#!/usr/bin/env bash
case "$*" in
"-m pip install"*) echo "$*" >> "$LOG" ;;
*) exec "$REAL" "$@" ;;
esac
"""
ROOM = {
    "CLASSROOM": "llm", "ASSIGNMENT": "block", "SUBMISSION_TAG": "submit/1", "COMMIT_URL": "c",
    "RELEASE_URL": "r",
}  # fmt: skip


def run(where: Path, tmp_path: Path, *line: str, python: str = PYTHON) -> tuple[int, str]:
    """Run a command as a runner does, but for pip; its status, and the summary it has written."""
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(python, encoding="utf-8")
    stub.chmod(0o755)
    summary = tmp_path / "summary"
    summary.write_text("", encoding="utf-8")
    variables = {"GITHUB_STEP_SUMMARY": str(summary), "LOG": str(tmp_path / "log"), **ROOM}
    variables |= {"REAL": sys.executable, "PATH": f"{stub.parent}:{os.environ['PATH']}"}
    variables["OMP_NUM_THREADS"] = "1"
    with hand_ins.nothing_left_behind():
        done = subprocess.run(line, cwd=where, env=os.environ | variables, capture_output=True)
    assert not done.returncode or b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, summary.read_text(encoding="utf-8")


# GitHub's shells: the one of a step that names none knows nothing of pipefail.
SHELLS = {
    None: ("bash", "-e"),
    "bash": ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail"),
}


def run_step(repository: Path, tmp_path: Path, name: str, python: str = PYTHON) -> tuple[int, str]:
    """Run a step of the workflow as GitHub does, in the shell that it names."""
    script, step = tmp_path / "step.sh", steps(repository)[name]
    script.write_text(step["run"], encoding="utf-8")
    return run(repository, tmp_path, *SHELLS[step.get("shell")], str(script), python=python)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_push_is_as_green_as_its_checks(repository: Path, tmp_path: Path, status: int) -> None:
    python = f"#!/usr/bin/env bash\necho some points\nexit {status}\n"
    done = run_step(repository, tmp_path, "Check", python)
    assert done == (status, "```\nsome points\n```\n")


@pytest.mark.slow
def test_the_steps_run_and_show_points(repository: Path, tmp_path: Path) -> None:
    assert run_step(repository, tmp_path, "Install")[0] == 0
    installed = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert [line.split()[-1] for line in installed] == ["torch", "."]
    assert (repository / "constraints.txt").is_file()
    status, summary = run_step(repository, tmp_path, "Check")
    assert status == 1 and "0 of 100 points" in summary
    for name, text in hand_ins.right().items():
        (repository / "labs" / "lab2_qwen3_block" / name).write_text(text, encoding="utf-8")
    status, summary = run_step(repository, tmp_path, "Check")
    assert status == 0 and "100 of 100 points" in summary


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["labs/lab2_qwen3_block", "."])
def test_classroom_50_gets_the_result_of_its_own_grader(tmp_path: Path, inside: str) -> None:
    bundle, checkout = tmp_path / "bundle", tmp_path / "checkout"
    command = ["export", "classroom50", "--lab", "2", "--to", str(bundle), "--lang", "en"]
    assert main(command) == 0
    # Classroom 50 fetches 10 MB at most; no hidden case is among them.
    assert sum(path.stat().st_size for path in bundle.iterdir()) < 5 << 20
    with zipfile.ZipFile(bundle / github.GRADER) as archive:
        assert not [name for name in archive.namelist() if name.startswith("solutions")]
    (checkout / inside).mkdir(parents=True)
    (checkout / "autograder").mkdir()  # a student's own grader says nothing
    (checkout / "autograder/__main__.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    for name, text in hand_ins.right().items():
        (checkout / inside / name).write_text(text, encoding="utf-8")
    interpreter = [sys.executable, str(bundle / "autograder.py")]
    code = (
        "import runpy, subprocess, sys; real = subprocess.run\n"
        "def run(line, **rest):\n"
        "    return real(['true'] if 'pip' in line else line, **rest)\n"
        f"subprocess.run = run; runpy.run_path({interpreter[1]!r}, run_name='__main__')"
    )
    status, _ = run(checkout, tmp_path, sys.executable, "-c", code)
    assert status == 0
    result = json.loads((checkout / "result.json").read_text(encoding="utf-8"))
    assert result["schema"] == "classroom50/result/v1" and result["score"] == 100
    assert result["submission"] == "submit/1" and result["review"] == "c"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["datetime"])


@pytest.mark.parametrize("lab", sorted(path.name for path in labfile.LABS.glob("lab*_*")))
def test_every_lab_has_a_workflow_that_is_yaml(lab: str) -> None:
    text = github.workflow(labfile.load(labfile.LABS / lab), "zh")
    data = yaml.safe_load(text)
    assert list(data["jobs"]) == [lab.partition("_")[0]] and "--lang zh" in text
    assert data["permissions"] == {"contents": "read"}


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = tmp_path / "absent"
    assert main(["export", "github", "--to", str(absent), "--lang", "en"]) == 2
    assert "make release writes it" in capsys.readouterr().err
    assert main(["test", "--json", str(tmp_path / "x.json"), "--lang", "en"]) == 2
    assert "--json needs --lab" in capsys.readouterr().err

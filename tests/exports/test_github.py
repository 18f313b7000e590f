"""The workflow for GitHub Classroom: its steps run here as they stand, in a student's copy."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
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
from autograder.report import classroom
from tests import hand_ins
from tests.report.test_report import ALL_PASSED, CLASS, LAB, MIXED

yaml: Any = import_module("yaml")  # it has no types of its own


def told(hand_in: HandIn, language: str = "en") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        classroom.text_of(replace(CLASS, hand_ins=(hand_in,)), language)
    )
    assert document["version"] == 3 and document["status"] in ("pass", "fail", "error")
    for test in document["tests"]:
        assert test["status"] in ("pass", "fail", "error") and type(test["score"]) is int
        assert test["status"] == "pass" or (test["message"] and test["score"] == 0)
        assert len(test.get("output", "")) <= 500
    return document


def test_what_the_reporter_adds_up_is_the_score() -> None:
    document = told(ALL_PASSED)
    assert document["status"] == "pass" and document["max_score"] == 100
    assert sum(test["score"] for test in document["tests"]) == 100


def test_what_could_not_be_checked_is_no_zero() -> None:
    document = told(MIXED)
    assert document["status"] == "error" and document["max_score"] == 80
    assert sum(test["score"] for test in document["tests"]) == 20


def test_odd_output_is_cut_and_harmless() -> None:
    odd = "\x1b[31m\ud800" + "x" * 2000
    result = CheckResult(LAB.checks[0].name, Outcome.FAILED, prints=odd)
    (test,) = told(HandIn("a", (result,)), "zh")["tests"]
    assert test["output"] == "x" * 500


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's repository, made from the template that an instructor has made."""
    root = tmp_path_factory.mktemp("github") / "repository"
    for path, blob in release.contents(labfile.ROOT).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(blob)
    assert main(["export", "github", "--lab", "2", "--to", str(root), "--lang", "en"]) == 0
    return root


def steps(repository: Path) -> dict[str, dict[str, Any]]:
    text = (repository / ".github/workflows/lab2.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    return {step["name"]: step for step in job["steps"]}


STUB = """#!/usr/bin/env bash
case "$*" in
"-m pip install"*) echo "$*" >> "$LOG" ;;
*) exec "$REAL" "$@" ;;
esac
"""


def run(repository: Path, tmp_path: Path, name: str) -> str:
    """Run a step as GitHub does (``bash -e -o pipefail``); what it adds to its outputs."""
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    output = tmp_path / "output"
    output.touch()
    variables = {"GITHUB_OUTPUT": str(output), "LOG": str(tmp_path / "log"), "REAL": sys.executable}
    variables |= {"PATH": f"{stub.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    script = tmp_path / "step.sh"
    script.write_text(steps(repository)[name]["run"], encoding="utf-8")
    line = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
    with hand_ins.nothing_left_behind():
        done = subprocess.run(line, cwd=repository, env=os.environ | variables, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return output.read_text(encoding="utf-8")


def reported(output: str) -> dict[str, Any]:
    """What the reporter decodes from the step's output."""
    name, _, value = output.strip().partition("=")
    assert name == "result" and "\n" not in value
    document: dict[str, Any] = json.loads(base64.b64decode(value))
    return document


@pytest.mark.slow
def test_the_steps_run_and_report_points(repository: Path, tmp_path: Path) -> None:
    run(repository, tmp_path, "Install")
    installed = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert [line.split()[-1] for line in installed] == ["torch", "."]
    assert (repository / "constraints.txt").is_file()
    document = reported(run(repository, tmp_path, "Check"))
    assert document["max_score"] == 100 and document["status"] == "fail"
    assert sum(test["score"] for test in document["tests"]) == 0
    for name, text in hand_ins.right().items():
        (repository / "labs" / "lab2_qwen3_block" / name).write_text(text, encoding="utf-8")
    (tmp_path / "output").unlink()
    document = reported(run(repository, tmp_path, "Check"))
    assert document["status"] == "pass"
    assert sum(test["score"] for test in document["tests"]) == 100


def test_the_reporter_finds_the_result_under_its_runners_name(repository: Path) -> None:
    found = steps(repository)
    reporter = found["Tell the points"]
    (runner,) = reporter["with"]["runners"].split(",")
    assert found["Check"]["id"] == runner
    expected = {f"{runner.upper()}_RESULTS": f"${{{{ steps.{runner}.outputs.result }}}}"}
    assert reporter["env"] == expected


@pytest.mark.parametrize("lab", sorted(path.name for path in labfile.LABS.glob("lab*_*")))
def test_every_lab_has_a_workflow_that_is_yaml(lab: str) -> None:
    text = github.workflow(labfile.load(labfile.LABS / lab), "zh")
    data = yaml.safe_load(text)
    assert list(data["jobs"]) == [lab.partition("_")[0]] and "--lang zh" in text
    assert data["permissions"] == {"checks": "write", "actions": "read", "contents": "read"}


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = tmp_path / "absent"
    assert main(["export", "github", "--to", str(absent), "--lang", "en"]) == 2
    assert "make release writes it" in capsys.readouterr().err
    assert main(["test", "--json", str(tmp_path / "x.json"), "--lang", "en"]) == 2
    assert "--json needs --lab" in capsys.readouterr().err

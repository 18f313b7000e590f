"""Commands in the process of the tests, with judges and zygotes that stand already.

Starting those, and building hidden cases, is most of the work for a small class. All else that a
command does, and all that a hand-in goes through, is as it is on the command line.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import student
from autograder.cli.main import main
from autograder.course.labfile import ROOT
from autograder.grading import hidden_cases
from autograder.grading import rescore as grading_rescore
from autograder.grading import run as grading_run
from autograder.grading.engine import Engine
from autograder.grading.judge_process import JudgeProcess

SECRET = "a secret that many tests share"
Told = tuple[Mapping[str, int], tuple[str, ...]]
_shelf: dict[tuple[Any, ...], tuple[JudgeProcess, Told | None]] = {}
_built = tempfile.mkdtemp(prefix="hidden-cases-")
_build = hidden_cases._reference


@dataclass(frozen=True)
class Run:
    """A finished command, and the folder it wrote."""

    status: int
    stdout: str
    stderr: str
    out: Path

    @property
    def record(self) -> dict[str, Any]:
        text = (self.out / "class.json").read_text(encoding="utf-8")
        record: dict[str, Any] = json.loads(text)
        return record

    @property
    def scores(self) -> dict[str, int]:
        return {h["student"]: h["score"]["earned"] for h in self.record["hand_ins"]}


class Warm(Engine):
    """Takes its processes from a shelf and puts them back there, unless one was lost."""

    def __enter__(self) -> Warm:
        self.processes, self._told = _shelf.pop(self._key(), None) or (
            JudgeProcess(self._lab, self._options),
            None,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and self._told and self._key() not in _shelf:
            _shelf[self._key()] = self.processes, self._told
        else:
            super().__exit__(kind, *rest)

    def _ready(self) -> Told:
        self._told = self._told or super()._ready()
        return self._told

    def _replace_processes(self) -> None:
        super()._replace_processes()
        self._told = None

    def _key(self) -> tuple[Any, ...]:
        """What a judges learns when it starts; all else it is told with every hand-in."""
        asked = self._options
        assert asked.real is None
        hidden = asked.hidden_cases and asked.hidden_cases.name  # a digest of what it holds
        return self._lab, hidden, bool(asked.kept), asked.without, asked.spawn, asked.diagnose


@atexit.register
def _end() -> None:
    while _shelf:
        _shelf.popitem()[1][0].end(kill=False)
    shutil.rmtree(_built, ignore_errors=True)


@cache
def _hidden(lab: str, key: str) -> Path:
    path = Path(_built, key, f"{lab}.safetensors")
    path.parent.mkdir(exist_ok=True)
    _build(["hidden", lab, str(path)], key)
    return path


def _copied(arguments: list[str], first_line: str) -> str:
    what, lab, path = arguments
    assert what == "hidden"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(_hidden(lab, first_line), path)
    return ""


def with_cases(out: Path, text: str = SECRET, lab: str = "lab2_qwen3_block") -> Path:
    """The folder of a class that a command will grade with this secret, its cases in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hidden_cases, "_reference", _copied)
        patch.setenv(hidden_cases.VARIABLE, text)
        hidden_cases.hidden_cases(lab, out, hidden_cases.find(None, out))
    return out


def run(*arguments: object, encoding: str = "utf-8", **variables: str) -> Run:
    """What ``python -m autograder`` with these arguments says and returns."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for module in (grading_run, grading_rescore, student):
            patch.setattr(module, "Engine", Warm)
        patch.setattr(hidden_cases, "_reference", _copied)
        patch.delenv(hidden_cases.VARIABLE, raising=False)
        patch.chdir(ROOT)
        for name, value in ({"LAB_LANG": "en"} | variables).items():
            patch.setenv(name, value)
        status = main([str(argument) for argument in arguments])
    return Run(status, _said(out), _said(err), Path())


def _said(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode(stream.encoding)  # type: ignore[attr-defined]


def grade(source: Path, out: Path, *options: object, **variables: str) -> Run:
    """The class in ``source``, graded into ``out``; with the tests' secret unless one is named."""
    if "--secret-file" not in options:
        variables = {hidden_cases.VARIABLE: SECRET} | variables
    done = run("grade", source, "--out", out, *options, **variables)
    return Run(done.status, done.stdout, done.stderr, out)


def rescore(out: Path, *options: object, key: str = SECRET) -> Run:
    """A graded class, judged again; ``key`` is empty where no secret is named."""
    variables = {hidden_cases.VARIABLE: key} if key else {}
    done = run("rescore", out, *options, **variables)
    return Run(done.status, done.stdout, done.stderr, out)

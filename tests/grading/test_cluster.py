"""A class on a Dask cluster: the same files, a worker lost or not, and no worker that differs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.course.records import Message, Origin, Student, Submission
from autograder.grading import cluster
from tests import hand_ins
from tests.cli.test_grade_command import EXAMPLES, Run, command
from tests.cli.test_recovery import until
from tests.engines import fill

SECRET = "a secret for a cluster"
LAB = labfile.load(labfile.find_lab("2"))
NAMES = ("alice_right", "carol_norm_after_rope", "dan_tiled_kv_heads", "judy_untouched_stub")


def test_a_chunk_arrives_as_it_was_sent() -> None:
    origin = Origin("x", (Student("1", "李雷", "l@x.cn"),), "2026-01-02T03:04:05", True, 2)
    odd = Submission(
        "li-2",
        {"attention.py": "a = '\ud800'\r\n", "mlp.py": ""},
        (Message("intake.renamed", {"given": ("a", 1), "used": float("inf")}),),
        {"": Message("intake.empty", {"file": "x"})},
        origin,
    )
    plain = Submission("bob", {})
    assert cluster.submissions_of(cluster.chunk_of([odd, plain])) == [odd, plain]


def test_what_differs_is_named() -> None:
    ours = asdict(cluster.same(LAB))
    older = {**ours, "versions": {**ours["versions"], "torch": "1.0"}}
    assert re.search(r"has torch 1\.0 instead of \d.*environment", cluster._differing(ours, older))
    assert "version of the grader" in cluster._differing(ours, {**ours, "grader": "x"})
    assert "version of the lab" in cluster._differing(ours, {**ours, "lab": "x"})


def test_dask_itself_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import logging\n"
        "from autograder.course import labfile\n"
        "from autograder.grading import cluster\n"
        "lab = labfile.load(labfile.find_lab('2'))\n"
        "cluster.Cluster('tcp://127.0.0.1:1', lab, cluster.Options(), 'strong', 1)\n"
        "ours = ['distributed' + name for name in ('', '.client', '.comm.tcp', '.core')]\n"
        "for name in (*ours, 'tornado.application', 'asyncio'):\n"
        "    logging.getLogger(name).error('lost')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def grade(out: Path, *options: str, language: str = "en") -> int:
    return main(["grade", str(EXAMPLES), "--out", str(out), "--lang", language, *options])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_the_package_one_sentence_says_how_to_get_it(
    language: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "distributed" else find(name, *more),
    )
    assert grade(tmp_path / "out", "--dask", "tcp://127.0.0.1:1", language=language) == 2
    said = capsys.readouterr().err
    assert "[cluster]" in said and "pip install" in said and len(said.splitlines()) == 1
    assert ("没有安装" in said) == (language == "zh") and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [("--keep-outputs",), ("--weights", "Qwen/Qwen3-0.6B")])
def test_what_needs_files_of_one_machine_is_refused(
    option: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade(tmp_path / "out", "--dask", "tcp://127.0.0.1:1", *option) == 2
    assert option[0] in capsys.readouterr().err


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def test_no_scheduler_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    address = f"tcp://127.0.0.1:{free_port()}"
    options = cluster.Options(hidden_cases=tmp_path / "none")
    with (
        cluster.Cluster(address, LAB, options, "strong", 1) as engine,
        pytest.raises(cluster.EngineError, match=rf"{address}: no Dask scheduler"),
    ):
        engine.wait_ready()


class Machines:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._all: list[subprocess.Popen[bytes]] = []
        host, port = self.address.removeprefix("tcp://").split(":")
        self.scheduler = self._start("scheduler", "--host", host, "--port", port)

    def worker(self, root: Path = ROOT, first: str = "") -> subprocess.Popen[bytes]:
        """One more worker, without a nanny that would start it anew; it runs ``first`` first."""
        local = str(self._folder / f"local{len(self._all)}")
        line = (self.address, "--nthreads", "1", "--no-nanny", "--local-directory", local)
        return self._start("worker", *line, root=root, first=first)

    def joined(self, number: int) -> None:
        """Wait until so many workers have come, those that have gone among them."""
        for _ in range(600):
            log = (self._folder / "scheduler0.log").read_text()
            if log.count("Register worker") >= number:
                return
            time.sleep(0.1)

    def _start(
        self, kind: str, *options: str, root: Path = ROOT, first: str = ""
    ) -> subprocess.Popen[bytes]:
        code = f"{first}\nfrom distributed.cli.dask_{kind} import main; main()"
        line = [sys.executable, "-c", code, *options, "--no-dashboard"]
        known = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        with (self._folder / f"{kind}{len(self._all)}.log").open("wb") as log:
            process = subprocess.Popen(
                line, cwd=self._folder, env=os.environ | known, stdout=log, stderr=log
            )
        self._all.append(process)
        return process

    def stop(self) -> None:
        """Workers first, so that they end in peace."""
        for process in reversed(self._all):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    folder = tmp_path / "machines"
    folder.mkdir()
    with hand_ins.nothing_left_behind():
        made = Machines(folder)
        try:
            yield made
        finally:
            made.stop()


def files_of(out: Path) -> dict[str, bytes]:
    shown = [*out.glob("*.*"), *out.glob("*/report.*"), *out.glob(".records/*")]
    return {str(path.relative_to(out)): path.read_bytes() for path in shown if path.name[0] != "."}


@pytest.mark.slow
def test_a_worker_that_is_killed_midway_changes_nothing(machines: Machines, tmp_path: Path) -> None:
    source = tmp_path / "class"
    for number in range(12):
        name = NAMES[number % len(NAMES)]
        shutil.copytree(EXAMPLES / name, source / f"s{number:02}_{name}")
    out = tmp_path / "out"
    for folder in (out, tmp_path / "whole"):
        fill(folder, LAB.name, SECRET)
    whole = command(source, tmp_path / "whole", AUTOGRADER_SECRET=SECRET)
    assert whole.status == 0, whole.stderr
    workers = [machines.worker(), machines.worker()]
    line = [sys.executable, "-m", "autograder", "grade", str(source), "--out", str(out)]
    process = subprocess.Popen(
        [*line, "--dask", machines.address],
        cwd=ROOT,
        env=os.environ | {"AUTOGRADER_SECRET": SECRET, "LAB_LANG": "en"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(process, "[2/12]")
    workers[0].send_signal(signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert files_of(out) == files_of(whole.out) and stdout == whole.stdout
    assert workers[1].poll() is None


# The command, which waits a sixth as long as else for a scheduler to come back.
HASTY = """
import sys
from autograder.cli.main import main
from autograder.grading import cluster
cluster.PATIENCE = 10
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_named_and_what_is_done_stays(
    machines: Machines, tmp_path: Path
) -> None:
    source = tmp_path / "class"
    for number in range(8):
        shutil.copytree(EXAMPLES / NAMES[3], source / f"s{number}")
    machines.worker()
    out = tmp_path / "out"
    fill(out, LAB.name, SECRET)
    machines.joined(1)
    line = [sys.executable, "-c", HASTY, "grade", str(source), "--out", str(out)]
    process = subprocess.Popen(
        [*line, "--dask", machines.address],
        cwd=ROOT,
        env=os.environ
        | {"AUTOGRADER_SECRET": SECRET, "LAB_LANG": "en"}
        | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(process, "[1/8]")
    machines.scheduler.kill()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2 and "the scheduler is gone" in said and "--resume" in said
    assert "Traceback" not in said and "disk" not in said
    run = command(source, out, "--resume", AUTOGRADER_SECRET=SECRET)
    assert run.status == 0 and len(run.scores) == 8


@pytest.mark.slow
def test_a_worker_that_differs_or_isolates_less_is_refused(
    machines: Machines, tmp_path: Path
) -> None:
    source = tmp_path / "class"
    shutil.copytree(EXAMPLES / NAMES[3], source / "ann")
    other = tmp_path / "other"
    for room in ("autograder", "labs", "solutions"):
        shutil.copytree(ROOT / room, other / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", other)
    with (other / "autograder" / "judge" / "main.py").open("a") as file:
        file.write("# changed\n")
    changed = machines.worker(other)

    def graded(name: str, *options: str) -> Run:
        options = ("--dask", machines.address, *options)
        fill(tmp_path / name, LAB.name, SECRET)
        return command(source, tmp_path / name, *options, AUTOGRADER_SECRET=SECRET)

    run = graded("changed")
    assert run.status == 2 and "another version of the grader" in run.stderr
    assert "Traceback" not in run.stderr and not run.out.joinpath("class.json").exists()
    changed.terminate()
    changed.wait(30)
    machines.worker()
    machines.worker(first=LESS)
    machines.joined(3)
    run = graded("weak")
    assert run.status == 3 and "isolation level “weak”" in run.stderr, run.stderr
    run = graded("allowed", "--min-isolation", "weak")
    assert run.status == 0 and "on 2 workers" in run.stderr, run.stderr
    assert isolation_of(run)["level"] == "weak"
    assert "seccomp" not in isolation_of(run)["layers"]


# What a kernel without seccomp would do to the worker's engine.
LESS = """
from autograder.grading import cluster
whole = cluster.Options
cluster.Options = lambda **given: whole(**given, without=("seccomp",))
"""


def isolation_of(run: Run) -> dict[str, Any]:
    text = (run.out / "class.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["isolation"]
    return found

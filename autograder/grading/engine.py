"""The engine: starts zygote and judge, feeds hand-ins, yields their records as they finish."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from autograder.course.labfile import ROOT
from autograder.course.plain import message_from_plain, message_to_plain, result_from_plain
from autograder.course.records import (
    CheckResult,
    HandIn,
    Isolation,
    Lab,
    Message,
    Outcome,
    Submission,
)
from autograder.grading.prepare import RealWeights
from autograder.sandbox.jail import level
from autograder.sandbox.spawned import clean_environment, command

NEEDED = ("torch", "numpy", "pytest", "pytest_timeout", "safetensors")
TRIES = 2  # a hand-in whose judge was lost is tried once more, then left to a human


class EngineError(RuntimeError):
    """Grading cannot start or go on; the text says what to do."""


@dataclass(frozen=True)
class Options:
    """How to grade: hidden cases (or None), hand-ins at a time, fork or spawn, shown paths."""

    hidden_cases: Path | None = None
    real: RealWeights | None = None
    jobs: int = 1
    order_seed: bytes = b""
    checks: tuple[str, ...] = ()  # empty: all
    shown_folder: str = ""  # in tracebacks; empty: the lab's name
    without: tuple[str, ...] = ()  # layers of isolation left off, to show what each one stops
    spawn: bool = field(default_factory=lambda: wants_spawn())


def wants_spawn() -> bool:
    """Whether workers are spawned one by one: where fork is unsafe, or when asked to."""
    asked = os.environ.get("AUTOGRADER_WORKER")
    return asked == "spawn" or not sys.platform.startswith("linux")


class Engine:
    """Zygote and judge of one lab; a context manager that ends both."""

    def __init__(self, lab: Lab, options: Options) -> None:
        self._lab = lab
        self._options = options
        self._zygote: subprocess.Popen[bytes] | None = None
        self._judge: subprocess.Popen[bytes] | None = None
        self.counts: Mapping[str, int] = {}
        self.isolation = Isolation("weak", (), "spawn" if options.spawn else "fork")

    def __enter__(self) -> Engine:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for process in (self._judge, self._zygote):
            if process is None:
                continue
            if kind is not None:
                process.kill()  # what it was doing is not wanted any more
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _start(self) -> None:
        absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if absent:
            raise EngineError(
                f"{sys.executable} lacks {', '.join(absent)}; run make setup and then "
                ".venv/bin/python -m autograder (or activate the environment)"
            )
        real = self._options.real
        memory = str((self._lab.limits.memory_mib + (real.memory_mib if real else 0)) << 20)
        control = "-"
        inherited: tuple[int, ...] = ()
        judge_end: socket.socket | None = None
        if not self._options.spawn:
            # Datagrams, so that requests of several forked judges never mix.
            judge_end, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            without = ",".join(self._options.without)
            control, inherited = str(judge_end.fileno()), (judge_end.fileno(),)
            self._zygote = subprocess.Popen(
                command(
                    "zygote", ROOT, memory, str(zygote_end.fileno()), without, *self._mapping()
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=clean_environment(),
                cwd="/",
                pass_fds=(zygote_end.fileno(),),
                start_new_session=True,  # Ctrl-C is ours to handle
            )
            zygote_end.close()
        judge = [sys.executable, "-m", "autograder.harness.judge"]
        self._judge = subprocess.Popen(
            [*judge, str(self._lab.folder), control, memory, *self._case_files()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Whatever pytest plugins an environment holds have no business in grading.
            env=os.environ
            | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
            cwd=ROOT,
            pass_fds=inherited,
            start_new_session=True,
        )
        if judge_end is not None:
            judge_end.close()

    def _mapping(self) -> list[str]:
        real = self._options.real
        return [] if real is None else [str(real.folder), *real.prefixes]

    def _case_files(self) -> list[str]:
        options = self._options
        files = {"--hidden-cases": options.hidden_cases}
        if options.real is not None:
            files |= {"--real-cases": options.real.cases, "--real-weights": options.real.folder}
        return [part for name, path in files.items() if path for part in (name, str(path))]

    def wait_ready(self) -> None:
        """Wait until judge and zygote stand; learn the cases and the isolation that binds.

        Raises:
            EngineError: one of them could not start.
        """
        message = self._hear()
        if "ready" not in message:
            raise EngineError(f"the judge did not start: {message.get('error', 'no answer')}")
        self.counts = message["ready"]
        layers = tuple(message["layers"])
        self.isolation = Isolation(level(layers), layers, self.isolation.worker)

    def grade(self, submissions: Iterator[Submission]) -> Iterator[HandIn]:
        """Grade hand-ins, at most ``jobs`` at a time; yield each record when it is done."""
        waiting: dict[str, tuple[Submission, int]] = {}
        more = True
        while more or waiting:
            while more and len(waiting) < self._options.jobs:
                submission = next(submissions, None)
                if submission is None:
                    more = False
                    break
                waiting[submission.student] = (submission, 1)
                self._tell(submission)
            if not waiting:
                break
            answer = self._hear()
            if "hand_in" not in answer:  # the judge itself is gone: nobody's fault but ours
                for submission, _ in waiting.values():
                    yield self._ungraded(submission, "the judge ended")
                for submission in submissions:
                    yield self._ungraded(submission, "the judge ended")
                return
            submission, tries = waiting.pop(answer["hand_in"])
            if "record" in answer:
                yield self._hand_in(submission, answer["record"])
            elif tries < TRIES:
                waiting[submission.student] = (submission, tries + 1)
                self._tell(submission)
            else:
                yield self._ungraded(submission, f"its judge ended twice: {answer['lost']}")

    def _tell(self, submission: Submission) -> None:
        folder = self._options.shown_folder or self._lab.name
        order = hashlib.sha256(self._options.order_seed + submission.student.encode()).hexdigest()
        request = {
            "hand_in": submission.student,
            "files": dict(submission.files),
            "paths": {name: str(Path(folder, name)) for name in submission.files},
            "problems": {n: message_to_plain(m) for n, m in submission.problems.items()},
            "order": order,
            "checks": list(self._options.checks),
        }
        assert self._judge is not None and self._judge.stdin is not None
        try:
            self._judge.stdin.write(json.dumps(request).encode() + b"\n")
            self._judge.stdin.flush()
        except OSError:
            pass  # it has ended; reading its answers will tell

    def _hear(self) -> dict[str, Any]:
        assert self._judge is not None
        stream: IO[bytes] | None = self._judge.stdout
        assert stream is not None
        line = stream.readline()
        if not line:
            return {"error": f"exit status {self._judge.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _hand_in(self, submission: Submission, record: Mapping[str, Any]) -> HandIn:
        marks = tuple(message_from_plain(raw) for raw in record["marks"])
        results = tuple(result_from_plain(raw) for raw in record["results"])
        return self._record(submission, results, marks)

    def _ungraded(self, submission: Submission, why: str) -> HandIn:
        message = Message("check.grader_fault", {"text": why})
        results = [CheckResult(c.name, Outcome.NOT_GRADED, message) for c in self._lab.checks]
        return self._record(submission, tuple(results), [])

    def _record(
        self, submission: Submission, results: tuple[CheckResult, ...], marks: Sequence[Message]
    ) -> HandIn:
        digests = {
            name: hashlib.sha256(text.encode()).hexdigest()
            for name, text in submission.files.items()
        }
        return HandIn(submission.student, results, submission.notes, tuple(marks), digests)

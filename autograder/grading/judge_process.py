"""Zygote and judge of one lab: started together, asked and heard, ended together."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.records import Lab
from autograder.sandbox.links import by_signal
from autograder.sandbox.workers import clean_environment, command
from autograder.worker import loader

# What a judge process takes beside the lab itself: banks of fingerprints, and real weights.


@dataclass(frozen=True)
class RealWeights:
    """Cases on real weights, and what the zygote maps for them."""

    cases: Path
    folder: Path
    prefixes: tuple[str, ...]
    memory_mib: int


def banks(lab: Lab) -> dict[str, Path]:
    """Say where a lab's banks of fingerprints lie, by the judge's option; either may be absent."""
    return {
        "--fingerprints": lab.folder / "fingerprints.bank",
        "--pair-fingerprints": SOLUTIONS / lab.name / "pairs.bank",
    }


ZYGOTE = "autograder.worker.zygote"
NEEDED = ("torch", "numpy", "pytest", "pytest_timeout", "safetensors")
PATIENCE = 5  # seconds for a process to end by itself when its work is done


class EngineError(RuntimeError):
    """Grading cannot start or go on; the text says what to do."""


class JudgeProcessLost(Exception):
    """Judge or zygote ended; the text says how. ``gave_up``: the judge ended by itself."""

    def __init__(self, text: str, *, gave_up: bool = False) -> None:
        super().__init__(text)
        self.gave_up = gave_up


@dataclass(frozen=True)
class Options:
    """Options of the engine: hidden cases (or None), hand-ins at a time, fork or spawn."""

    hidden_cases: Path | None = None
    real: RealWeights | None = None
    jobs: int = 1
    order_seed: bytes = b""
    checks: tuple[str, ...] = ()  # empty: all
    shown_folder: str = ""  # in tracebacks; empty: the lab's name
    diagnose: bool = True  # recognise mistakes, where the lab has fingerprints of them
    replay: bool = True  # run some checks again in another order: does state carry over?
    whole: bool = True  # else no check is run after the first that costs points
    prints: bool = False  # keep what checks that pass print, too
    each_case: bool = False  # of a check that fails, the other public cases as well
    keep: Path | None = None  # folder for what hand-ins answer, one file each
    kept: Path | None = None  # such a folder to judge from: nothing of a hand-in runs
    without: tuple[str, ...] = ()  # layers of isolation left off, to show what each one stops
    spawn: bool = field(default_factory=lambda: wants_spawn())


def wants_spawn() -> bool:
    """Return whether workers are spawned one by one: where fork is unsafe, or when asked to."""
    asked = os.environ.get("AUTOGRADER_WORKER")
    return asked == "spawn" or not sys.platform.startswith("linux")


class JudgeProcess:
    """A judge and, unless workers are spawned, the zygote that it asks for them."""

    def __init__(self, lab: Lab, options: Options) -> None:
        """Start both; :meth:`ready` waits until they stand.

        Raises:
            EngineError: a package is missing.
        """
        absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if absent:
            raise EngineError(
                f"{sys.executable} lacks {', '.join(absent)}; run make setup and then "
                ".venv/bin/python -m autograder (or activate the environment)"
            )
        self._options = options
        self._lab = lab
        real = options.real
        memory = str((lab.limits.memory_mib + (real.memory_mib if real else 0)) << 20)
        # What the lab lets hand-ins read, where a worker without rights can.
        self._files = None if options.kept else loader.copied(lab.folders)
        self.zygote: subprocess.Popen[bytes] | None = None
        control: socket.socket | None = None
        if not options.spawn and not options.kept:
            control = self._start_zygote(memory)
        inherited = () if control is None else (control.fileno(),)
        way = str(inherited[0]) if inherited else "none" if options.kept else "spawn"
        judge = [sys.executable, "-m", "autograder.judge.main", str(lab.folder)]
        self.judge = subprocess.Popen(
            [*judge, way, memory, *self._case_files()],
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
        if control is not None:
            control.close()
        assert self.judge.stdin is not None
        # A thread writes: while a long request is on its way, the judge may be waiting for us to
        # hear a long answer, and both pipes are full.
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        writing = (self.judge.stdin, self._requests)
        self._writer = threading.Thread(target=_write, args=writing, daemon=True)
        self._writer.start()

    def ready(self) -> tuple[Mapping[str, int], tuple[str, ...]]:
        """Wait until both stand; the numbers of cases, and the isolation layers that bind.

        Raises:
            JudgeProcessLost: one of them has ended.
        """
        message = self.hear()
        if "ready" not in message:
            raise JudgeProcessLost(message.get("no_worker", "no answer"))
        return message["ready"], tuple(message["layers"])

    def tell(self, request: Mapping[str, Any]) -> None:
        """Send a request without waiting; when the judge has ended, :meth:`hear` tells."""
        self._requests.put(json.dumps(request).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next message of the judge.

        Raises:
            JudgeProcessLost: it has ended.
        """
        stream: IO[bytes] | None = self.judge.stdout
        assert stream is not None
        line = stream.readline()
        if not line.endswith(b"\n"):
            code = self.judge.wait()
            raise JudgeProcessLost(f"the judge ended with {_ending(code)}", gave_up=code >= 0)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self, *, kill: bool) -> None:
        """End both; with ``kill`` whatever they are doing is not wanted any more."""
        if kill:
            self.judge.kill()
        self._requests.put(None)
        self._writer.join(PATIENCE)
        if self._writer.is_alive():  # the judge reads no more, so it is not needed either
            self.judge.kill()
            self._writer.join()
        for process in (self.judge, self.zygote):
            if process is None:
                continue
            if kill:
                process.kill()
            if process.stdin is not None:
                with contextlib.suppress(OSError):  # something unsent was left
                    process.stdin.close()
            try:
                process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._files is not None:
            self._files.cleanup()

    def _start_zygote(self, memory: str) -> socket.socket:
        """Start the zygote; the judge's end of its control socket."""
        # Datagrams, so that requests of several forked judges never mix.
        judge_end, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        real = self._options.real
        mapping = [] if real is None else [str(real.folder), *real.prefixes]
        given, without = (",".join(some) for some in (self._lab.preloaded, self._options.without))
        files = self._files.name if self._files else ""
        self.zygote = subprocess.Popen(
            command(
                ZYGOTE, ROOT, memory, str(zygote_end.fileno()), given, without, files, *mapping
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=clean_environment(),
            cwd="/",
            pass_fds=(zygote_end.fileno(),),
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        zygote_end.close()
        return judge_end

    def _case_files(self) -> list[str]:
        options = self._options
        files: dict[str, Path | str | None] = {"--hidden-cases": options.hidden_cases}
        files["--given-files"] = self._files.name if self._files else None
        if options.real is not None:
            files |= {"--real-cases": options.real.cases, "--real-weights": options.real.folder}
        if options.diagnose:
            files |= {option: path for option, path in banks(self._lab).items() if path.exists()}
        return [part for name, path in files.items() if path for part in (name, str(path))]


def _write(stream: IO[bytes], requests: queue.SimpleQueue[bytes | None]) -> None:
    """Write requests as they come, until None does or nobody reads any more."""
    with contextlib.suppress(OSError):
        while (request := requests.get()) is not None:
            stream.write(request)
            stream.flush()


def _ending(code: int) -> str:
    return by_signal(-code) if code < 0 else f"exit status {code}"


# Which releases graded: written into every report.

PACKAGES = ("torch", "numpy", "pytest", "pytest-timeout")


def versions() -> dict[str, str]:
    """Releases of Python, of the packages that grade, and of this project."""
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in ("qwen3-labs", *PACKAGES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found

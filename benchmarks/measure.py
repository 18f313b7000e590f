"""CPU seconds of a command and of everything that it starts."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from autograder.course.labfile import ROOT

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


class CommandFailed(RuntimeError):
    """A measured command ended with a status that is not expected; carries what it said last."""


@dataclass(frozen=True)
class Run:
    """A finished command: CPU and wall-clock seconds, standard output and error together."""

    cpu: float
    wall: float
    output: str


def adopt_orphans() -> None:
    """Let processes whose parent ends first become ours, so that their CPU time is counted.

    Linux only; elsewhere a worker that outlives its zygote is missed, which flatters nobody by
    more than one hand-in of a class.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str],
    *,
    stdin: str = "",
    statuses: tuple[int, ...] = (0,),
    folder: Path = ROOT,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    """Run ``command`` in ``folder`` with one thread and wait for all it started.

    Args:
        command: program and arguments.
        stdin: what it reads.
        statuses: the exit statuses that are expected.
        folder: where it runs.
        more: environment variables beside those of this process.

    Raises:
        CommandFailed: its exit status is not among ``statuses``.
    """
    # Byte code is cached as on any machine of a user, whatever this shell says about it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment |= more
    cpu, started = _cpu_of_children(), time.monotonic()
    finished = subprocess.run(
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment,
        cwd=folder,
    )
    _reap_orphans()
    if finished.returncode not in statuses:
        last = "\n".join(finished.stdout.strip().splitlines()[-5:])
        shown = " ".join(command)
        raise CommandFailed(f"exit status {finished.returncode} of: {shown}\n{last}")
    return Run(_cpu_of_children() - cpu, time.monotonic() - started, finished.stdout)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap_orphans() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return

"""Engines that stay warm, and hidden cases that stay built, for as long as this process runs.

To start an engine costs more than to grade a small hand-in. Tests that start none for its own
sake, and break none, take one from here: those of one lab and one set of cases share processes.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from autograder.course import labfile
from autograder.course.records import Lab
from autograder.grading import hidden_cases as grading_hidden_cases
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from tests import tiny_lab
from tests.hand_ins import STAYING, children

_OPEN = ExitStack()
atexit.register(_OPEN.close)


@contextmanager
def warm(lab: Lab, options: Options) -> Iterator[Engine]:
    """An engine that is ready, whose processes have perhaps graded before and will grade again.

    The folder of the lab, and the file of the hidden cases, must not change any more.
    """
    # What they are told with every hand-in makes no other processes.
    of_one = {"jobs": 1, "order_seed": b"", "checks": (), "shown_folder": "", "keep": None}
    first = _started(lab.folder, replace(options, **of_one, replay=True))
    engine = Engine(lab, options)
    processes = engine.processes = first.processes
    engine.counts, engine.isolation = first.counts, first.isolation
    try:
        yield engine
    finally:
        if engine.processes is not processes:  # it had to be mended
            first.processes = engine.processes


@cache
def _started(folder: Path, options: Options) -> Engine:
    """The engine that starts processes, and ends them when this process ends."""
    engine = _OPEN.enter_context(Engine(labfile.load(folder), options))
    engine.wait_ready()
    STAYING.append(lambda: _judges(engine))
    return engine


def _judges(engine: Engine) -> set[int]:
    """The processes of an engine, but no workers: those have to end with their hand-ins."""
    assert engine.processes is not None
    judge, zygote = engine.processes.judge.pid, engine.processes.zygote
    return {judge, *children(judge), *([] if zygote is None else [zygote.pid])}


@cache
def folder() -> Path:
    """A folder of this process; it is gone at the end."""
    return Path(_OPEN.enter_context(tempfile.TemporaryDirectory(prefix="tests-")))


@cache
def hidden_cases(lab: str, secret: bytes) -> Path:
    """The file of the hidden cases of a lab for a secret; nobody may change it."""
    return grading_hidden_cases.hidden_cases(lab, folder(), secret)


def fill(out: Path, lab: str, secret: str) -> None:
    """Put hidden cases where grading into ``out`` with this secret will look for them."""
    made = hidden_cases(lab, hashlib.sha256(secret.encode()).digest())
    (out / ".cases").mkdir(parents=True)
    shutil.copy(made, out / ".cases")


@cache
def tiny() -> Lab:
    """The lab of :mod:`tests.tiny_lab`, for whoever changes nothing in it."""
    return tiny_lab.build(folder() / "lab9_doubling")

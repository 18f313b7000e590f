"""``python -m benchmarks.stages --lab 2``: where the CPU of one right hand-in goes, by stage.

Judge and worker take turns in this one process, by the code that grades a class: requests are
foreseen, packed, unpacked, executed, and their replies judged. Left out is what processes cost by
themselves (a fork, its jail, pages touched first, sockets): ``make bench`` has the whole. Ranks
are processes in any case, and one line here.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from autograder.checks.plan import Plan, collect
from autograder.course import labfile
from autograder.course.records import Lab, Outcome
from autograder.grading.hidden_cases import hidden_cases
from autograder.judge.runner import Runner
from autograder.sandbox import local, prefetcher, student, transport
from autograder.sandbox.links import Budget, Link
from autograder.wire import messages
from autograder.worker import collective, costs, loader, session, values
from autograder.worker.loader import read_sources

# Owner, name, what it does. Times are exclusive: what one calls of the others is not its own.
WORKER: tuple[tuple[Any, str, str], ...] = (
    (session.Session, "_answer", "the student's calls"),
    (costs, "measure", "measured calls, and measuring"),
    (session, "_load", "loading weights"),
    (loader.StudentModules, "module", "running the files again"),
    (session, "decode", "decoding arguments"),
    (session, "to_torch", "weights to torch"),
    (values, "to_torch", "arguments to torch"),
    (session, "encode", "encoding results"),
    (values, "from_torch", "results from torch"),
    (session, "_reset_torch", "resetting torch"),
    (session.Session, "execute", "going through requests"),
)
JUDGE: tuple[tuple[Any, str, str], ...] = (
    (student.Student, "new", "queueing steps"),
    (student.Student, "call", "queueing steps"),
    (prefetcher.Prefetcher, "reply", "foreseeing requests"),
    (prefetcher, "pack", "packing"),
    (transport, "pack", "packing"),
    (transport, "unpack", "unpacking"),
    (student.Student, "_take", "taking replies"),
    (Runner, "run", "the checks themselves"),
)
STEPS = {"new": "constructing modules", "call": "going through steps", "get": "reading attributes"}


@dataclass(frozen=True)
class Stage:
    """One line: which side, what it does, milliseconds and entries per hand-in."""

    side: str
    what: str
    milliseconds: float
    entries: float


class Clock:
    """Adds up the time of every stage; a stage that is entered stops the one around it."""

    def __init__(self) -> None:
        self.nanoseconds: Counter[tuple[str, str]] = Counter()
        self.entries: Counter[tuple[str, str]] = Counter()
        self._inside: list[tuple[str, str]] = []
        self._since = 0

    @contextmanager
    def stage(self, side: str, what: str) -> Iterator[None]:
        """Count the block."""
        self._turn()
        self._inside.append((side, what))
        self.entries[side, what] += 1
        try:
            yield
        finally:
            self._turn()
            self._inside.pop()

    def timed(self, side: str, what: str | Callable[..., str], function: Any) -> Any:
        """Return the function, counted as a stage; ``what`` may name it by its arguments."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.stage(side, what if isinstance(what, str) else what(*args)):
                return function(*args, **kwargs)

        return counted

    def _turn(self) -> None:
        now = time.perf_counter_ns()
        if self._inside:
            self.nanoseconds[self._inside[-1]] += now - self._since
        self._since = now

    def table(self, hand_ins: int) -> list[Stage]:
        """All stages, the longest first."""
        found = (
            Stage(*key, spent / 1e6 / hand_ins, self.entries[key] / hand_ins)
            for key, spent in self.nanoseconds.items()
        )
        return sorted(found, key=lambda stage: -stage.milliseconds)


class _Here(Link):
    """A worker in this process, which answers when its reply is looked at."""

    most_ahead = 8

    def __init__(self, clock: Clock) -> None:
        self._unpack = clock.timed("worker", "unpacking", messages.unpack_trusted)
        self._pack = clock.timed("worker", "packing", messages.pack)
        self._session: session.Session | None = None
        self._waiting: list[bytes] = []

    def start(self, budget: Budget) -> None:
        """Nothing is limited here."""

    def proceed(self, *blobs: bytes) -> None:
        self._waiting += blobs

    def finish(self) -> bytes:
        request, tensors = self._unpack(bytearray(self._waiting.pop(0)))
        if "sources" in request:
            self._session = session.Session(request["sources"], request["paths"])
            return bytes(self._pack({"layers": []}, {}))
        assert self._session is not None
        return bytes(self._pack(*self._session.execute(request, tensors)))

    def printed(self) -> bool:
        return False

    def take_prints(self) -> str:
        return ""

    def close(self) -> None:
        if self._session is not None:
            self._session.modules.remove()
            self._session = None


def stages(lab: Lab, repeats: int) -> list[Stage]:
    """Grade the solution on public and hidden cases and say where the time went.

    Args:
        lab: whose solution it is.
        repeats: hand-ins that are counted; two before them are not.

    Raises:
        ValueError: the solution loses points here.
    """
    files, paths = read_sources(labfile.SOLUTIONS / lab.name, lab.files)
    sources = transport.Sources(files, paths, lab.given)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        hidden = hidden_cases(lab.name, Path(folder), b"stages")
        plan = collect(lab.folder, ["--hidden-cases", str(hidden)])
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        stack.callback(gc.unfreeze)
        collective.stand_alone()
        stack.callback(collective.leave)
        gangs = transport.WorkerTransport(local.starter(), sources, lab.limits)  # of ranks alone
        stack.callback(gangs.renew)
        for side, table in (("worker", WORKER), ("judge", JUDGE)):
            for owner, name, what in table:
                counted = clock.timed(side, what, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, counted))
        step = clock.timed("worker", lambda _, step, *__: _named(step), session.Session._step)
        stack.enter_context(patch.object(session.Session, "_step", step))
        for number in range(repeats + 2):
            if number == 2:
                gc.collect()
                gc.freeze()  # as in a judge and in a worker
                clock.nanoseconds.clear()
                clock.entries.clear()
            _grade(plan, sources, clock, gangs)
    return clock.table(repeats)


def _named(step: Mapping[str, Any]) -> str:
    return STEPS.get(step["op"], "importing files")


def _grade(
    plan: Plan, sources: transport.Sources, clock: Clock, gangs: transport.WorkerTransport
) -> None:
    worker = transport.WorkerTransport(lambda: _Here(clock), sources, plan.lab.limits)
    ranks = clock.timed("judge", "waiting for ranks", gangs.exchange_ranks)
    with patch.object(worker, "exchange_ranks", ranks):
        results = Runner(plan, worker, worker.ahead).run({}, set())
    worker.renew()
    lost = [r.check for r in results if r.outcome not in (Outcome.PASSED, Outcome.NOT_GRADED)]
    if lost:
        raise ValueError(f"the solution of {plan.lab.name} loses {', '.join(lost)} here")


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lab", default="2")
    parser.add_argument("--repeats", type=int, default=10, help="hand-ins, after two to warm up")
    chosen = parser.parse_args(argv)
    found = stages(labfile.load(labfile.find_lab(chosen.lab)), chosen.repeats)
    whole = sum(stage.milliseconds for stage in found)
    print(f"{whole:.1f} ms per hand-in\n")
    for one in found:
        share = f"{100 * one.milliseconds / whole:5.1f} %"
        print(f"{one.side:7} {one.what:38} {one.milliseconds:8.2f} ms {share} {one.entries:6.0f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())

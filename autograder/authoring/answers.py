"""Answers of our own solution, with mistakes in it or without, to the public cases."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from autograder.authoring.place import LabSources, read
from autograder.authoring.recording import Recording, hashed, state_of, text_of
from autograder.checks.plan import Plan, collect
from autograder.course.records import CheckResult, Outcome
from autograder.diagnosis import misconceptions
from autograder.diagnosis.fingerprints import WIDTH, Short, shortened
from autograder.diagnosis.items import Answer, Trace, by_exercise
from autograder.diagnosis.misconceptions import Catalogue, Entry, MisconceptionError
from autograder.judge.runner import Runner
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.sharing import SharingTransport
from autograder.sandbox.transport import Sources

Traces = Mapping[str, Trace]  # by exercise
Shorts = dict[str, dict[str, Short]]  # by exercise and key of the item
OTHER_SEED = 1
SLOWER = 5.0  # CPU seconds that a first call may take longer here than in a warm worker


def sources_of(place: LabSources) -> dict[str, str]:
    """The text of the solution by file name."""
    return {name: read(place.solution / name) for name in place.lab.files}


def catalogue_of(place: LabSources) -> Catalogue:
    """The lab's misconceptions. Raises MisconceptionError."""
    return misconceptions.load(place.misconceptions, sources_of(place))


def together(entries: Sequence[Entry], sources: Mapping[str, str]) -> dict[str, str] | None:
    """The solution with several mistakes in it; None if their places overlap."""
    made = dict(sources)
    try:
        for entry in entries:
            made = misconceptions.apply(entry, made)
    except MisconceptionError:
        return None
    return made


def run_here(
    plan: Plan,
    sources: Mapping[str, str],
    *,
    only: Collection[str] = (),
    seed: int = 0,
    whole: bool = True,
    seconds: float = 0,
    shares: bool = False,
) -> tuple[tuple[CheckResult, ...], Sequence[Answer]]:
    """Run the checks on a hand-in of ours; it runs in this process, as in a worker.

    Args:
        plan: the checks on their cases.
        sources: text by file name.
        only: names of the checks to run, those that they need among them; all if empty.
        seed: of torch's generator.
        whole: ask everything; else this ends with the first check that costs points.
        seconds: of CPU for one request; 0: what the lab allows, and :data:`SLOWER`.
        shares: it does not run where it has the same text as one before it on this plan; ``seed``
            is that of all of them.

    Returns:
        A result per check, and what came back on public cases.
    """
    limit = seconds or plan.lab.limits.cpu_seconds + SLOWER
    here = LocalTransport(Sources(sources), seed=seed, seconds=limit)
    transport = SharingTransport(here, plan.shared, sources) if shares else here
    # Workers are without oneDNN, whose bfloat16 kernels round in other places.
    before = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        runner = Runner(plan, transport, whole=whole)
        results = runner.run({}, set(only))
        if whole:  # whatever the order of cases will be when a class is graded
            with transport.aside():
                runner.ask_the_rest(skipped=False)
    finally:
        torch.backends.mkldnn.set_flags(before[0])  # type: ignore[no-untyped-call]
        here.close()
    return results, runner.answers


def lost_of(results: Iterable[CheckResult]) -> set[str]:
    """The checks that earn no points, those that were skipped among them."""
    kept = (Outcome.PASSED, Outcome.NOT_GRADED)
    return {result.check for result in results if result.outcome not in kept}


def traces_of(
    plan: Plan, sources: Mapping[str, str], *, only: Collection[str] = (), seed: int = 0
) -> dict[str, Trace]:
    """Return what a hand-in of ours answers, by exercise; see :func:`run_here`."""
    return by_exercise(plan.lab, run_here(plan, sources, only=only, seed=seed)[1])


def reference_of(plan: Plan, sources: Mapping[str, str]) -> tuple[Traces, frozenset[str]]:
    """Return what the solution answers, and the items in it that hang on random numbers."""
    first, second = traces_of(plan, sources), traces_of(plan, sources, seed=OTHER_SEED)
    random = {
        key
        for name, trace in first.items()
        for key, item in trace.items()
        if not (item.values == second[name][key].values).all()
    }
    return first, frozenset(random)


@dataclass(frozen=True)
class AnswerRequest:
    """One of our hand-ins, and the keys of items that are wanted of it, by exercise.

    Without ``items`` it is asked everything.
    """

    sources: Mapping[str, str]
    items: Mapping[str, Collection[str]] | None = None

    @property
    def keys(self) -> set[str]:
        """The keys of all items that are wanted; one stands for everything."""
        return {ALL} if self.items is None else set().union(*self.items.values())


@dataclass(frozen=True)
class HandInAnswers:
    """Answers of a hand-in, by exercise; ``lost`` are checks, where it was asked everything."""

    items: Shorts
    lost: tuple[str, ...]


ALL = "*"
AT_ONCE = 200  # answers that are recorded together: what is interrupted goes on there
_NOTHING: Mapping[str, Any] = {"asked": (), "items": {}, "lost": ()}
FEW = 40  # answers for which no more processes are worth while
_Task = tuple[Mapping[str, str], list[str], int]  # sources, keys of items, numbers per item


class Answers:
    """Short answers of our own hand-ins; what one was asked before is read.

    Nothing is answered anew here: ``audit`` asks some of the mistakes of a bank again.

    Args:
        plan: the checks, on public cases.
        recording: where answers are kept.
        jobs: processes to answer in, where there is much to answer; as many as cores if 0.
    """

    def __init__(self, plan: Plan, recording: Recording | None = None, *, jobs: int = 0) -> None:
        self._plan, self._jobs = plan, jobs or os.cpu_count() or 1
        self._recording = recording or Recording()
        self._state = hashed("answers", state_of(plan.lab, words=False))

    def short(
        self, wanted: Sequence[AnswerRequest], *, what: str, width: int = WIDTH
    ) -> list[HandInAnswers]:
        """Return what each of them answers, in their order.

        Args:
            wanted: who is asked what.
            what: they are called so where it is said how far it is.
            width: numbers per item.
        """
        keys = [hashed(self._state, text_of(one.sources), str(width)) for one in wanted]
        known = self._recording.get_all(keys)
        left: dict[str, set[str]] = {}
        for key, one in zip(keys, wanted, strict=True):
            asked = {*known.setdefault(key, dict(_NOTHING))["asked"]}
            if missing := set() if ALL in asked else one.keys - asked:
                left.setdefault(key, set()).update(missing)
        texts = dict(zip(keys, (one.sources for one in wanted), strict=True))
        tasks = [(texts[key], sorted(items), width) for key, items in left.items()]
        answers = _progress(self._answered(tasks), len(tasks), what)
        pairs = zip(left, answers, strict=True)
        while some := list(islice(pairs, AT_ONCE)):
            for key, (found, lost) in some:
                asked = {ALL} if ALL in left[key] else {*known[key]["asked"], *left[key]}
                for name, items in known[key]["items"].items():
                    found[name] = items | found.get(name, {})
                known[key] = {"asked": sorted(asked), "items": found, "lost": lost}
            self._recording.put_all({key: known[key] for key, _ in some})
        return [_chosen(known[key], one) for key, one in zip(keys, wanted, strict=True)]

    def _answered(self, tasks: Sequence[_Task]) -> Iterator[Any]:
        if len(tasks) <= FEW or self._jobs == 1:
            yield from (_answer(self._plan, task) for task in tasks)
            return
        begun = partial(_begin, self._plan.lab.folder)
        spawned = get_context("spawn")  # a fork would be without torch's threads
        with ProcessPoolExecutor(self._jobs, spawned, begun) as pool:
            yield from pool.map(_answer_here, tasks, chunksize=16)


_plan: Plan  # of a process that only answers


def _begin(folder: Path) -> None:
    global _plan
    torch.set_num_threads(1)
    _plan = collect(folder)


def _answer_here(task: _Task) -> Any:
    return _answer(_plan, task)


def _answer(plan: Plan, task: _Task) -> Any:
    """Plain data: the items that are wanted, by exercise, and the checks that cost points."""
    sources, keys, width = task
    checks = plan.lab.with_needs({key.split("/")[0] for key in keys if key != ALL})
    results, answers = run_here(plan, sources, only=checks, shares=True)
    items = {
        name: {
            key: [s.form, s.vector.tolist(), s.norm, s.weight, s.digest.hex()]
            for key, s in shortened(trace, width).items()
            if key in keys or ALL in keys
        }
        for name, trace in by_exercise(plan.lab, answers).items()
    }
    return items, sorted(lost_of(results))


def _chosen(known: Mapping[str, Any], wanted: AnswerRequest) -> HandInAnswers:
    items = known["items"]
    chosen = items if wanted.items is None else wanted.items
    shorts = {
        name: {
            key: Short(form, np.array(vector, np.float64), norm, weight, bytes.fromhex(digest))
            for key, (form, vector, norm, weight, digest) in items.get(name, {}).items()
            if key in keys
        }
        for name, keys in chosen.items()
    }
    return HandInAnswers(shorts, tuple(known["lost"]))


def _progress(found: Iterable[Any], count: int, what: str) -> Iterator[Any]:
    """Say on standard error how far it is, where that takes long."""
    terminal = sys.stderr.isatty()
    began = said = time.monotonic()
    for number, one in enumerate(found, 1):
        now = time.monotonic()
        if now - said > (1 if terminal else 30):
            said, left = now, (now - began) / number * (count - number)
            line = f"{what}: {number:,} of {count:,} answered, about {left:.0f} s left"
            print(line, end="  \r" if terminal else "\n", file=sys.stderr, flush=True)
        yield one

"""Confirms counts from outside: what a process says of itself against what the system sees of it.

Checks of costs read counts that the student's own process makes, and code that knows how can make
them up. So some hand-ins are asked once more, after all checks, with inputs so large that work
left uncounted shows in the peak memory or the CPU time of the worker, which it cannot forge. Only
a large factor says anything: slow code is not suspected, nor a busy machine, and what uses little
more than it says stays unseen. A disagreement is for a person, who gets both numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import pytest

from autograder.course.records import CheckResult, Message, Outcome, Text
from autograder.harness.plan import Plan, Trial
from autograder.sandbox.link import NoWorker, Usage
from autograder.sandbox.student import Student
from autograder.sandbox.transport import WorkerTransport

DRAWN = 10  # one in so many hand-ins is confirmed whatever else is known of it
MIB = 1 << 20
# All right styles that we have take at most 13 MiB more than they say, forged naive ones 250 MiB.
_TIMES_BYTES, _MORE_BYTES = 2, 40 * MIB
# They take at most twice as long for the second call, naive ones 14 times.
_TIMES_SECONDS, _MORE_SECONDS = 5, 0.01
_F = TypeVar("_F", bound=Callable[..., None])


def confirms(*checks: str) -> Callable[[_F], _F]:
    """Mark a function of ``confirmations.py``: it confirms what these checks have counted.

    It gets a :class:`Watched` student and a case, earns nothing and costs nothing.
    """
    mark: Callable[[_F], _F] = pytest.mark.confirms(*checks)
    return mark


class Disagreement(Exception):
    """The process has used far more than its own counts say."""

    def __init__(self, key: str, **values: float) -> None:
        super().__init__(key)
        self.key, self.values = key, values


class NotVisible(Exception):
    """The system does not tell what this worker uses."""


class Watched(Student):
    """A hand-in whose process is watched from outside."""

    def __init__(self, transport: WorkerTransport) -> None:
        super().__init__(transport)
        self._worker = transport

    def usage(self) -> Usage:
        """What the worker has used once all that is queued has run.

        Raises:
            NotVisible: nobody knows.
        """
        self.flush()
        usage = self._worker.usage()
        if usage is None:
            raise NotVisible
        return usage

    def seconds(self, ask: Callable[[], object], *, times: int = 2) -> float:
        """CPU seconds that what ``ask`` queues takes: the least of several times."""
        taken = []
        for _ in range(times):
            before = self.usage().cpu_seconds
            ask()
            taken.append(self.usage().cpu_seconds - before)
        return min(taken)


def expect_bytes_as_said(said: int, before: Usage, after: Usage) -> None:
    """The worker's memory has not grown by far more than the call between says it had alive."""
    seen = after.highest - before.resident
    if seen > _TIMES_BYTES * said + _MORE_BYTES:
        raise Disagreement("check.more_bytes", said=said / MIB, seen=seen / MIB)


def expect_equal_work(first: float, second: float) -> None:
    """Two calls that are said to do the same work take CPU seconds of the same order."""
    if second > _TIMES_SECONDS * first + _MORE_SECONDS:
        raise Disagreement("check.more_time", first=1e3 * first, second=1e3 * second)


def wanted(marks: Collection[Message], seed: str) -> bool:
    """Whether the counts of a hand-in with these marks are confirmed."""
    return bool(marks) or random.Random(f"confirm {seed}").randrange(DRAWN) == 0


def disagreements(
    plan: Plan, results: Iterable[CheckResult], transport: WorkerTransport
) -> list[Message]:
    """Marks for a person where checks have passed by counts that are not confirmed.

    Raises:
        NoWorker: none could be started.
    """
    passed = {result.check for result in results if result.outcome is Outcome.PASSED}
    asked = [
        (tuple(check.title for check in plan.lab.checks if check.name in checks), trial)
        for checks, trial in plan.confirmations.items()
        if passed.issuperset(checks)  # else its own counts have told already
    ]
    if not asked or transport.usage() is None:
        return []  # a worker for nothing takes seconds where each is a Python of its own
    return [mark for titles, trial in asked for mark in _asked(titles, trial, transport)]


def _asked(titles: Sequence[Text], trial: Trial, transport: WorkerTransport) -> list[Message]:
    trial.guard()
    try:
        with transport.exact():  # a peak stays: one worker for each
            trial.run(Watched(transport), trial.case)
    except Disagreement as error:
        named = {"en": ", ".join(t.en for t in titles), "zh": "、".join(t.zh for t in titles)}
        return [Message(error.key, {"checks": named, **error.values})]
    except NoWorker:
        raise
    except Exception:  # no check: whatever else happens here says nothing about the counts
        return []
    return []

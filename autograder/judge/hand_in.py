"""Judges one hand-in from beginning to end: all checks, marks for a person, a replay."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from autograder.checks.expect import CheckFailed
from autograder.checks.plan import CheckCase, Plan
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import CheckResult, Finding, Message, Outcome, Text
from autograder.judge import marks, outcomes
from autograder.judge.diagnose import KnownMistakes, findings
from autograder.judge.marks import may_keep_static_state
from autograder.judge.runner import Runner
from autograder.sandbox.links import NoWorker, Starter, StudentError, Usage, WorkerLost
from autograder.sandbox.recording import KeepingTransport, KeptTransport
from autograder.sandbox.sharing import SharingTransport
from autograder.sandbox.student import Student
from autograder.sandbox.transport import CheckTransport, Sources, WorkerTransport

# Whether what one check leaves behind in its process decides about another.
#
# Namespaces are fresh for every check, but the process is one: code may patch torch, or count its
# calls. So a few checks run once more, in a new worker and the other way round, each from a case
# that was not its first. Honest code gives the same; where it does not, a person is told. A worker
# more is a tenth of what a hand-in costs: it is spent where the text could keep something at all,
# and on some of the others, which the secret chooses.

REPLAYED = 3  # checks
SAMPLED = 8  # one in so many hand-ins is replayed whatever its text


def replay_due(files: Mapping[str, str], seed: str) -> bool:
    """Return whether this hand-in (text by file name) is worth a replay."""
    return random.Random(seed).randrange(SAMPLED) == 0 or may_keep_static_state(files)


def chosen(plan: Plan, results: Mapping[str, CheckResult], seed: str) -> list[CheckCase]:
    """Cases to run once more: of checks that passed or failed on a case we know, last first."""
    found = []
    for check in plan.lab.checks:
        result = results.get(check.name)
        check_cases = plan.check_cases.get(check.name, ())
        if result is None or check.fresh or not check_cases:
            continue
        if result.outcome is Outcome.PASSED:
            found.append(check_cases[-1])
        elif result.outcome is Outcome.FAILED:
            found += [one for one in check_cases if one.case.name == result.case]
    kept = random.Random(seed).sample(range(len(found)), min(REPLAYED, len(found)))
    return [found[place] for place in sorted(kept, reverse=True)]


def changed(
    plan: Plan, results: Mapping[str, CheckResult], transport: WorkerTransport, seed: str
) -> list[Message]:
    """Marks for a person where a check ends otherwise than it did at first.

    Raises:
        NoWorker: none could be started.
    """
    check_cases = chosen(plan, results, seed)
    if not check_cases:
        return []
    transport.renew()
    differ = []
    for check_case in check_cases:
        check_case.guard()
        try:
            passed = _passes(check_case, transport)
        except WorkerLost as lost:
            if lost.stray or lost.timed_out:
                continue  # a stray kill, or less time than at first, says nothing
            passed = False
        except NoWorker:
            raise
        except Exception:
            passed = False  # an answer that no check expects must not cost us the judge
        if passed != (results[check_case.check].outcome is Outcome.PASSED):
            differ.append(check_case.check)
    titles = [check.title for check in plan.lab.checks if check.name in differ]
    return [Message("check.state_carries_over", {"checks": _listed(titles)})] if differ else []


def _listed(titles: Sequence[Text]) -> dict[str, str]:
    """Titles of checks within a sentence."""
    return {
        "en": ", ".join(title.en.rstrip(".") for title in titles),
        "zh": "、".join(title.zh.rstrip("。") for title in titles),
    }


def _passes(check_case: CheckCase, transport: WorkerTransport) -> bool:
    student = Student(transport)
    try:
        check_case.run(student, check_case.case)
        student.flush()
    except (CheckFailed, StudentError):
        return False
    return True


# Confirms counts from outside: what a process says of itself against what the system sees of it.
#
# Checks of costs read counts that the student's own process makes, and code that knows how can make
# them up. So some hand-ins are asked once more, after all checks, with inputs so large that work
# left uncounted shows in the peak memory or the CPU time of the worker, which it cannot forge. Only
# a large factor says anything: slow code is not suspected, nor a busy machine, and what uses little
# more than it says stays unseen. A disagreement is for a person, who gets both numbers.

DRAWN = 10  # one in so many hand-ins is confirmed whatever else is known of it
MIB = 1 << 20
# All right styles that we have take at most 13 MiB more than they say, forged naive ones 250 MiB.
_TIMES_BYTES, _MORE_BYTES = 2, 40 * MIB
# They take at most twice as long for the second call, naive ones 14 times.
_TIMES_SECONDS, _MORE_SECONDS = 5, 0.01
_F = TypeVar("_F", bound=Callable[..., None])


def confirms(*checks: str) -> Callable[[_F], _F]:
    """Mark a function of ``confirmations.py``: it confirms what these checks have counted.

    It gets a :class:`WatchedHandIn` and a case, earns nothing and costs nothing.
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


class WatchedHandIn(Student):
    """A hand-in whose process is watched from outside."""

    def __init__(self, transport: WorkerTransport) -> None:
        super().__init__(transport)
        self._worker = transport

    def usage(self) -> Usage:
        """Return what the worker has used once all that is queued has run.

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


def confirmation_due(marks: Collection[Message], seed: str) -> bool:
    """Return whether the counts of a hand-in with these marks are confirmed."""
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
        (tuple(check.title for check in plan.lab.checks if check.name in checks), check_case)
        for checks, check_case in plan.confirmations.items()
        if passed.issuperset(checks)  # else its own counts have told already
    ]
    if not asked or transport.usage() is None:
        return []  # a worker for nothing takes seconds where each is a Python of its own
    return [mark for titles, check_case in asked for mark in _asked(titles, check_case, transport)]


def _asked(
    titles: Sequence[Text], check_case: CheckCase, transport: WorkerTransport
) -> list[Message]:
    check_case.guard()
    try:
        with transport.exact():  # a peak stays: one worker for each
            check_case.run(WatchedHandIn(transport), check_case.case)
    except Disagreement as error:
        return [Message(error.key, {"checks": _listed(titles), **error.values})]
    except NoWorker:
        raise
    except Exception:  # no check: whatever else happens here says nothing about the counts
        return []
    return []


def _recognised(
    plan: Plan,
    results: Sequence[CheckResult],
    runner: Runner,
    known: KnownMistakes | None,
    transport: CheckTransport,
) -> tuple[Finding, ...]:
    """Return the findings; none where an answer breaks what looks for them: it costs no points.

    Where it may be one mistake or another, more is asked: a check ends with the first case that it
    fails, and the order of its cases is another one for everybody.

    Raises:
        NoWorker: none could be started.
    """
    if known is None:
        return ()
    try:
        found = findings(plan, results, runner.answers, known, transport)
        unsure = {exercise for one in found if one.either for exercise in one.exercises}
        if not unsure:
            return found
        runner.ask_behind_failures(unsure)
        return findings(plan, results, runner.answers, known, transport)
    except NoWorker:
        raise
    except Exception as error:
        print(f"autograder: no mistake was looked for: {type(error).__name__}", file=sys.stderr)
        return ()


def grade_hand_in(
    plan: Plan, request: Mapping[str, Any], start: Starter, known: KnownMistakes | None = None
) -> dict[str, Any]:
    """Run all checks on one hand-in.

    Args:
        plan: the lab's checks and cases.
        request: see :mod:`autograder.judge.main`; with ``keep`` (a path) what comes back is
            kept there, with ``kept`` it is taken from there and nothing of the hand-in runs.
            With ``shares`` it does not run where it has the same text as one before it.
        start: how to get a worker.
        known: what mistakes are recognised by; without it none is looked for.

    Returns:
        ``{"record": …}``, or ``{"no_worker": why}``, or ``{"unwritten": [errno, why]}`` when what
        came back could not be kept.
    """
    lab = plan.lab
    plan = plan.shuffled(request["order"])
    problems = from_plain(dict[str, Message], request["problems"])
    sources = Sources(request["files"], request["paths"], lab.given, lab.name)
    worker = WorkerTransport(start, sources, lab.limits)
    transport: WorkerTransport | KeepingTransport | KeptTransport | SharingTransport = worker
    if request.get("kept"):
        transport = KeptTransport(Path(request["kept"]))
    elif request.get("keep"):
        told = {name: request[name] for name in ("files", "problems", "order")}
        transport = KeepingTransport(worker, Path(request["keep"]), told)
    elif request.get("shares"):
        transport = SharingTransport(worker, plan.shared, request["files"], worker.ahead)
    shown = bool(request.get("prints"))  # nothing is asked ahead: else prints are of no one check
    ahead = None if request.get("kept") or shown else worker.ahead
    runner = Runner(plan, transport, ahead, whole=request.get("whole", True), prints=shown)
    try:
        results = runner.public(problems, set(request["checks"]))
        # In the worker at hand, which has seen no hidden case yet.
        with transport.aside():
            recognised = _recognised(plan, results, runner, known, transport)
        results = runner.hidden()
        files, ran = request["files"], runner.imported
        found = marks.forbidden(lab, files, runner.operators, ran)
        unread = marks.is_unread(files, ran)
        if request["replay"] and (unread or replay_due(files, request["order"])):
            by_name = {result.check: result for result in results}
            with worker.aside():  # else who spends the hand-in's time is not replayed
                found += changed(plan, by_name, worker, request["order"])
        if request["replay"] and confirmation_due(found, request["order"]):
            with worker.aside():
                found += disagreements(plan, results, worker)
        results = outcomes.of_files(lab, request["files"], results)
        each_case = runner.each_case() if request.get("each_case") else ()
        if isinstance(transport, KeepingTransport):
            runner.ask_the_rest()
            try:
                transport.save()
            except OSError as error:
                return {"unwritten": [error.errno, error.strerror]}
    except NoWorker as error:
        return {"no_worker": str(error)}
    finally:
        worker.renew()
    record = {"results": results, "marks": found, "findings": recognised, "cases": each_case}
    return {"record": to_plain(record)}

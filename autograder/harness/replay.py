"""Whether what one check leaves behind in its process decides about another.

Namespaces are fresh for every check, but the process is one: code may patch torch, or count its
calls. So a few checks run once more, in a new worker and the other way round, each from a case
that was not its first. Honest code gives the same; where it does not, a person is told. A worker
more is a tenth of what a hand-in costs: it is spent where the text could keep something at all,
and on some of the others, which the secret chooses.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from autograder.course.records import CheckResult, Message, Outcome
from autograder.harness.carry import may_carry_state
from autograder.harness.checks import CheckFailed
from autograder.harness.plan import Plan, Trial
from autograder.sandbox.link import NoWorker, WorkerLost
from autograder.sandbox.student import Student, StudentError
from autograder.sandbox.transport import WorkerTransport

REPLAYED = 3  # checks
SAMPLED = 8  # one in so many hand-ins is replayed whatever its text


def wanted(files: Mapping[str, str], seed: str) -> bool:
    """Whether this hand-in (text by file name) is worth a replay."""
    return random.Random(seed).randrange(SAMPLED) == 0 or may_carry_state(files)


def chosen(plan: Plan, results: Mapping[str, CheckResult], seed: str) -> list[Trial]:
    """Cases to run once more: of checks that passed or failed on a case we know, last first."""
    found = []
    for check in plan.lab.checks:
        result = results.get(check.name)
        trials = plan.trials.get(check.name, ())
        if result is None or check.fresh or not trials:
            continue
        if result.outcome is Outcome.PASSED:
            found.append(trials[-1])
        elif result.outcome is Outcome.FAILED:
            found += [trial for trial in trials if trial.case.name == result.case]
    kept = random.Random(seed).sample(range(len(found)), min(REPLAYED, len(found)))
    return [found[place] for place in sorted(kept, reverse=True)]


def changed(
    plan: Plan, results: Mapping[str, CheckResult], transport: WorkerTransport, seed: str
) -> list[Message]:
    """Marks for a person where a check ends otherwise than it did at first.

    Raises:
        NoWorker: none could be started.
    """
    trials = chosen(plan, results, seed)
    if not trials:
        return []
    transport.renew()
    differ = []
    for trial in trials:
        trial.guard()
        try:
            passed = _passes(trial, transport)
        except WorkerLost as lost:
            if lost.stray or lost.clock == "whole":
                continue  # somebody's kill, or a hand-in's budget, says nothing about the order
            passed = False
        except NoWorker:
            raise
        except Exception:
            passed = False  # an answer that no check expects must not cost us the judge
        if passed != (results[trial.check].outcome is Outcome.PASSED):
            differ.append(trial.check)
    titles = [check.title for check in plan.lab.checks if check.name in differ]
    named = {"en": ", ".join(t.en for t in titles), "zh": "、".join(t.zh for t in titles)}
    return [Message("check.state_carries_over", {"checks": named})] if differ else []


def _passes(trial: Trial, transport: WorkerTransport) -> bool:
    student = Student(transport)
    try:
        trial.run(student, trial.case)
        student.flush()
    except (CheckFailed, StudentError):
        return False
    return True

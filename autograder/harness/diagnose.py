"""What a hand-in's answers say about the mistakes in it: findings, for a report or a hint.

Nothing here changes a score, and a hand-in that passes costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.course.records import Certainty, CheckResult, Finding, Lab, Message, Outcome
from autograder.diagnosis import bank as banks
from autograder.diagnosis.bank import Bank
from autograder.diagnosis.fingerprints import Fingerprints
from autograder.diagnosis.items import Answer, by_exercise
from autograder.diagnosis.naming import Naming, names
from autograder.harness import locate
from autograder.harness.plan import Plan
from autograder.sandbox.transport import CheckTransport


@dataclass(frozen=True)
class Known:
    """The fingerprints to compare with: single mistakes, and pairs where the grader has them."""

    bank: Bank
    pairs: Mapping[str, Fingerprints] = field(default_factory=dict)


def known(fingerprints: str | None, pairs: str | None) -> Known | None:
    """Read the banks; None without one.

    One that cannot be read is said on standard error, and grading goes on: it costs no points.
    """
    if not fingerprints:
        return None
    try:
        singles = banks.load(Path(fingerprints))
        return Known(singles, banks.load(Path(pairs)).exercises if pairs else {})
    except banks.BankError as error:
        print(f"autograder: no mistake will be named: {error}", file=sys.stderr)
        return None


def findings(
    plan: Plan,
    results: Sequence[CheckResult],
    answers: Sequence[Answer],
    known: Known,
    transport: CheckTransport,
) -> tuple[Finding, ...]:
    """What is recognised in the exercises that fail on public cases.

    Args:
        plan: what was graded.
        results: what became of its checks.
        answers: what came back on public cases.
        known: what to compare with.
        transport: where to ask what else helps, a few calls; no hidden case has been there yet.

    Raises:
        NoWorker: none could be started.
    """
    failing = failures(plan.lab, results)
    checks = {check.name for check in plan.lab.checks if check.exercise in failing}
    asked = [
        answer for answer in answers if answer.check in checks
    ]  # of the others nothing is said
    traces = {name: trace for name, trace in by_exercise(plan.lab, asked).items() if trace}
    if not traces:
        return ()
    found = []
    for naming in names(known.bank, known.pairs, traces):
        if naming.certainty is Certainty.UNKNOWN:  # each exercise has its own that is known
            each = [replace(naming, exercises=(name,)) for name in naming.exercises]
        else:
            each = [naming]
        for one in each:
            said = tuple(_known(plan, one, failing, known, transport))
            if said or one.certainty is not Certainty.UNKNOWN:
                found.append(_finding(one, failing, known, said))
    return tuple(found)


def _known(
    plan: Plan,
    naming: Naming,
    failing: Mapping[str, tuple[str, ...]],
    known: Known,
    transport: CheckTransport,
) -> Iterator[Message]:
    """What is known beside a name."""
    if naming.partly:
        yield Message("diagnosis.not_alone")
    wrong = {check for name in naming.exercises for check in failing[name]}
    if naming.within in wrong:  # that of a check that passes would read as if it had failed
        titles = {check.name: check.title for check in plan.lab.checks}
        title = titles[naming.within]
        yield Message("diagnosis.within", {"check": {"en": title.en, "zh": title.zh}})
    for exercise in naming.exercises:
        course = known.bank.courses.get(exercise)
        if course is not None and course.check in failing[exercise]:
            yield from locate.stages_of(plan, course, transport)
        if naming.certainty is not Certainty.NAMED:
            yield from locate.properties_of(plan, exercise, transport)


def failures(lab: Lab, results: Sequence[CheckResult]) -> dict[str, tuple[str, ...]]:
    """The checks that give wrong answers to public cases, by exercise."""
    wrong = {r.check for r in results if r.outcome is Outcome.FAILED and not r.hidden}
    found: dict[str, tuple[str, ...]] = {}
    for exercise in lab.exercises:
        failed = tuple(check.name for check in exercise.checks if check.name in wrong)
        if failed:
            found[exercise.id] = failed
    return found


def _finding(
    naming: Naming,
    failing: Mapping[str, tuple[str, ...]],
    known: Known,
    said: tuple[Message, ...],
) -> Finding:
    return Finding(
        exercises=naming.exercises,
        certainty=naming.certainty,
        misconceptions=tuple(known.bank.classes[name] for name in naming.classes),
        either=naming.either,
        checks=tuple(check for name in naming.exercises for check in failing[name]),
        known=said,
    )

"""Findings: the mistakes that a hand-in's answers tell of, and where the fault lies.

Nothing here changes a score, and a hand-in that passes costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from autograder.checks.expect import CheckFailed
from autograder.checks.plan import CheckCase, Plan
from autograder.course.records import Certainty, CheckResult, Finding, Lab, Message, Outcome, Text
from autograder.diagnosis import bank as banks
from autograder.diagnosis.bank import Bank
from autograder.diagnosis.fingerprints import Fingerprints
from autograder.diagnosis.items import COLUMNS, Answer, Stage, StagePlan, by_exercise, furthest
from autograder.diagnosis.misconceptions import TOLD
from autograder.diagnosis.naming import FEW, Naming, names
from autograder.sandbox.links import NoWorker, StudentError, WorkerLost
from autograder.sandbox.recording import NotKept
from autograder.sandbox.student import Student
from autograder.sandbox.transport import CheckTransport
from autograder.wire.messages import Tensor

# Where the fault lies, when its name is not known or not enough: up to which stage all agrees.


def stages_of(plan: Plan, course: StagePlan, transport: CheckTransport) -> list[Message]:
    """Up to where the answer to a check is right, and what differs first; or nothing.

    Raises:
        NoWorker: none could be started.
    """
    check_cases = plan.check_cases.get(course.check, ())
    check_case = next((one for one in check_cases if one.case.name == course.case), None)
    if check_case is None:
        return []
    try:
        student, _ = _asked(check_case, transport, traced=True)
    except WorkerLost:
        return []
    tables = [made for made in student.traces if isinstance(made, Tensor)]
    rows = [made.array for made in tables if made.shape[1:] == (COLUMNS,)]
    if not rows:
        return []
    right, loose, wrong = furthest(course.stages, np.concatenate(rows).astype(np.float64))
    if not wrong or (not right and wrong == course.stages[-1:]):  # that it is wrong is known
        return []
    if not right:
        return [Message("diagnosis.differs_at_once", {"differs": _listed(wrong)})]
    agrees = _listed(right, loose)
    return [Message("diagnosis.agrees", {"agrees": agrees, "differs": _listed(wrong)})]


def _asked(
    check_case: CheckCase, transport: CheckTransport, *, traced: bool = False
) -> tuple[Student, bool | None]:
    """Ask; once more, when a stray signal took the worker.

    Raises:
        WorkerLost, NoWorker.
    """
    student = Student(transport, traced=traced)
    try:
        return student, _ask(check_case, student)
    except WorkerLost as lost:
        if not lost.stray:
            raise
    transport.forgive()
    student = Student(transport, traced=traced)
    return student, _ask(check_case, student)


def _ask(check_case: CheckCase, student: Student) -> bool | None:
    """Return whether it passes, or what it says itself; None when it cannot be asked.

    Raises:
        WorkerLost, NoWorker.
    """
    check_case.guard()
    try:
        says = check_case.run(student, check_case.case)
        student.flush()
    except CheckFailed:
        return False
    except (StudentError, NotKept):
        return None
    except (WorkerLost, NoWorker):
        raise
    except Exception:  # an answer that no property expects tells nothing
        return None
    return says is not False


_LOOSE = Text(" (it has the right numbers, perhaps in another order)", "（数值正确，顺序可能不同）")


def _listed(stages: Sequence[Stage], loose: Sequence[Stage] = ()) -> dict[str, str]:
    """Their names; with those that are ``loose``, that only the numbers are known to be right."""
    ends = [_LOOSE if stage in loose else Text("", "") for stage in stages]
    named = list(zip((stage.name for stage in stages), ends, strict=True))
    return {
        "en": ", ".join(name.en + end.en for name, end in named),
        "zh": "、".join(name.zh + end.zh for name, end in named),
    }


@dataclass(frozen=True)
class KnownMistakes:
    """The fingerprints to compare with: single mistakes, and pairs where the grader has them."""

    bank: Bank
    pairs: Mapping[str, Fingerprints] = field(default_factory=dict)


def known(fingerprints: str | None, pairs: str | None) -> KnownMistakes | None:
    """Read the banks; None without one.

    One that cannot be read is said on standard error, and grading goes on: it costs no points.
    """
    if not fingerprints:
        return None
    try:
        singles = banks.load(Path(fingerprints))
        return KnownMistakes(singles, banks.load(Path(pairs)).exercises if pairs else {})
    except banks.BankError as error:
        print(f"autograder: no mistake will be named: {error}", file=sys.stderr)
        return None


def findings(
    plan: Plan,
    results: Sequence[CheckResult],
    answers: Sequence[Answer],
    known: KnownMistakes,
    transport: CheckTransport,
) -> tuple[Finding, ...]:
    """Return what is recognised in the exercises that fail on public cases.

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
    each: list[Naming] = []
    for naming in names(known.bank, known.pairs, traces):
        if naming.certainty is Certainty.UNKNOWN:  # each exercise has its own that is known
            each += (replace(naming, exercises=(name,)) for name in naming.exercises)
        else:
            each.append(naming)
    each = [with_experiments(plan, one, known, transport) for one in each]
    alone = all(one.certainty is Certainty.UNKNOWN for one in each)
    found = []
    for one in each:
        if one.certainty is Certainty.UNKNOWN:
            one = _with_told(plan.lab, one, known, results, alone)
        said = tuple(_known(plan, one, failing, known, transport))
        if said or one.certainty is not Certainty.UNKNOWN:
            found.append(_finding(one, failing, known, said))
    return tuple(found)


def with_experiments(
    plan: Plan, naming: Naming, known: KnownMistakes, transport: CheckTransport
) -> Naming:
    """Return what experiments show, where answers have no name for it, or only two together.

    Few at once: code that most of them hold for does something else.

    Raises:
        NoWorker: none could be started.
    """
    if naming.certainty is Certainty.NAMED and (naming.either or len(naming.classes) == 1):
        return naming
    held: dict[str, None] = {}
    for exercise in naming.exercises:
        for mistake, check_case in plan.behaviours.get(exercise, {}).items():
            try:
                if mistake in known.bank.classes and _asked(check_case, transport)[1]:
                    held[mistake] = None
            except WorkerLost:
                return naming  # it costs more than it can tell
    if not 0 < len(held) <= FEW:
        return naming
    return Naming(naming.exercises, Certainty.SHOWN, tuple(held))


_HALF = ("float16", "bfloat16")
_OWN = ("check.nothing", "check.inside")  # what others return that it calls plays no part


def _with_told(
    lab: Lab, naming: Naming, known: KnownMistakes, results: Sequence[CheckResult], alone: bool
) -> Naming:
    """Return what checks tell themselves, on public cases, where nothing else has a name for it.

    ``alone``: no other exercise has a mistake with a name, which may be seen in this one as well.
    """
    asked = {check.name for check in lab.checks if check.exercise in naming.exercises}
    told: dict[str, None] = {}
    for result in results:
        said = result.message
        if said is None or said.key not in TOLD or result.check not in asked or result.hidden:
            continue
        wide = said.key == "check.dtype" and said.values.get("want") not in _HALF
        if TOLD[said.key] in known.bank.classes and not wide and (alone or said.key in _OWN):
            told[TOLD[said.key]] = None
    return replace(naming, certainty=Certainty.SHOWN, classes=tuple(told)) if told else naming


def _known(
    plan: Plan,
    naming: Naming,
    failing: Mapping[str, tuple[str, ...]],
    known: KnownMistakes,
    transport: CheckTransport,
) -> Iterator[Message]:
    """Return what is known beside a name."""
    if naming.partly:
        yield Message("diagnosis.not_alone")
    wrong = {check for name in naming.exercises for check in failing[name]}
    if naming.within in wrong:  # that of a check that passes would read as if it had failed
        titles = {check.name: check.title for check in plan.lab.checks}
        title = titles[naming.within]
        words = {"en": title.en.rstrip("."), "zh": title.zh.rstrip("。")}
        yield Message("diagnosis.within", {"check": words})
    for exercise in naming.exercises:
        course = known.bank.courses.get(exercise)
        if course is not None and course.check in failing[exercise]:
            several = len(naming.exercises) > 1  # which of them has these steps is not clear then
            said = stages_of(plan, course, transport)
            yield from (_of(plan.lab, exercise, one) for one in said) if several else said


_IN = {
    "diagnosis.agrees": "diagnosis.agrees_in",
    "diagnosis.differs_at_once": "diagnosis.differs_at_once_in",
}


def _of(lab: Lab, exercise: str, said: Message) -> Message:
    """The sentence about stages, with its exercise in it."""
    title = next(one.title for one in lab.exercises if one.id == exercise)
    values = {**said.values, "exercise": {"en": title.en, "zh": title.zh}}
    return Message(_IN[said.key], values)


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
    known: KnownMistakes,
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

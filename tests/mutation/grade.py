"""Mutants as hand-ins: which of them the real grader lets through with all points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from autograder.authoring.answers import run_here
from autograder.authoring.recording import (
    FOLDER,
    RecordedEngine,
    Recording,
    content,
    hashed,
    state_of,
    text_of,
)
from autograder.checks.plan import Plan, collect
from autograder.course.records import CheckResult, Lab, Outcome
from autograder.grading.hidden_cases import hidden_cases
from tests.mutation.mutants import Mutant

SECRET = b"a secret of the mutants"
# Of CPU for one request, which takes some thousandths. What takes longer, a loop that never ends
# or the one at which this process was slow, is asked once more, and may take the second.
SECONDS = 0.5, 1.2


class Ungraded(Exception):
    """A mutant could not be graded: neither killed nor a survivor; the text says which."""


def survivors(
    lab: Lab, sources: Mapping[str, str], mutants: Sequence[Mutant]
) -> tuple[Mutant, ...]:
    """The mutants that lose no point, on public cases and on hidden ones.

    All are asked in this process, by the checks of their own exercise first, which kill most of
    them. One in twenty, others at every commit, is graded by the real grader, too.

    Raises:
        Ungraded: a check of one could not be judged; the grader says otherwise than this process;
            or the solution itself loses points, and then a killed mutant proves nothing.
    """
    files = {mutant.id: {**sources, mutant.file: mutant.text} for mutant in mutants}
    here, recording = _Here(lab), Recording()
    living = {mutant.id for mutant in mutants if not here.kills(mutant, files[mutant.id])}
    graded = [mutant for mutant in mutants if recording.is_due(mutant.id)]
    with RecordedEngine(lab, _hidden(lab), whole=False, recording=recording) as engine:
        hand_ins = {"solution": dict(sources)} | {m.id: files[m.id] for m in graded}
        records = engine.grade(hand_ins)
    if _loses(lab, "the solution", records["solution"].results):
        raise Ungraded("the solution itself loses points; mend that first (see tests/proof)")
    for mutant in graded:
        if _loses(lab, str(mutant), records[mutant.id].results) == (mutant.id in living):
            raise Ungraded(f"{mutant}: the grader says otherwise than its checks in this process")
    return tuple(mutant for mutant in mutants if mutant.id in living)


class _Here:
    """The checks of a lab in this process, on public cases and hidden ones."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._recording = lab, Recording()
        self._state = hashed("killed here", state_of(lab), content(_hidden(lab)))

    def kills(self, mutant: Mutant, files: Mapping[str, str]) -> bool:
        """Whether a check takes points. Raises Ungraded and StaleRecordingError."""
        key = hashed(self._state, text_of(files), mutant.exercise)
        return bool(self._recording.answer(key, lambda: self._asked(mutant, files), str(mutant)))

    def _asked(self, mutant: Mutant, files: Mapping[str, str]) -> bool:
        (own,) = (e for e in self._lab.exercises if e.id == mutant.exercise)
        results: Sequence[CheckResult] = ()
        for only in (self._lab.with_needs({check.name for check in own.checks}), ()):
            for seconds in SECONDS:
                plan = _plan(self._lab)
                results, _ = run_here(
                    plan, files, only=only, whole=False, seconds=seconds, shares=True
                )
                if all(result.outcome is not Outcome.TIMED_OUT for result in results):
                    break
            if _took(self._lab, results):
                return True
        return _loses(self._lab, str(mutant), results)


@cache
def _hidden(lab: Lab) -> Path:
    return hidden_cases(lab.name, FOLDER, SECRET)


@cache
def _plan(lab: Lab) -> Plan:
    return collect(lab.folder, ["--hidden-cases", str(_hidden(lab))])


def _loses(lab: Lab, name: str, results: Sequence[CheckResult]) -> bool:
    """Whether a check took points. If none did, all that are worth any have to be graded."""
    if _took(lab, results):
        return True
    undecided = [r.check for r in _worth(lab, results) if r.outcome is Outcome.NOT_GRADED]
    if undecided:
        raise Ungraded(f"{name}: {', '.join(undecided)} could not be graded")
    return False


def _took(lab: Lab, results: Iterable[CheckResult]) -> bool:
    """Whether a check that ran and could be graded took points."""
    free = Outcome.PASSED, Outcome.NOT_GRADED
    return any(result.outcome not in free for result in _worth(lab, results))


def _worth(lab: Lab, results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """The results of checks that have points."""
    worth = {check.name for check in lab.checks if check.points}
    return (result for result in results if result.check in worth)

"""Mutants as hand-ins: which of them the real grader lets through with all points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autograder.authoring.answers import with_needs
from autograder.authoring.recording import FOLDER, RecordedEngine
from autograder.course.records import HandIn, Lab, Outcome
from autograder.grading.hidden_cases import hidden_cases
from tests.mutation.mutants import Mutant

SECRET = b"a secret of the mutants"


class Ungraded(Exception):
    """A mutant could not be graded: neither killed nor a survivor; the text says which."""


def survivors(
    lab: Lab, sources: Mapping[str, str], mutants: Sequence[Mutant]
) -> tuple[Mutant, ...]:
    """The mutants that lose no point, on public cases and on hidden ones.

    The checks of its own exercise kill most of them; only the others are asked everything.

    Raises:
        Ungraded: a check of one could not be judged; or the solution itself loses points, and
            then a killed mutant proves nothing.
    """
    with RecordedEngine(lab, hidden_cases(lab.name, FOLDER, SECRET), whole=False) as engine:
        (solution,) = engine.grade({"solution": sources}).values()
        if _loses(lab, solution):
            raise Ungraded("the solution itself loses points; mend that first (see tests/proof)")
        lived = {mutant.id: {**sources, mutant.file: mutant.text} for mutant in mutants}
        for exercise in lab.exercises:
            own = {m.id: lived[m.id] for m in mutants if m.exercise == exercise.id}
            names = with_needs(lab, {check.name for check in exercise.checks})
            for name, hand_in in engine.grade(own, names).items():
                if _loses(lab, hand_in):
                    del lived[name]
        for name, hand_in in engine.grade(lived).items():
            if _loses(lab, hand_in):
                del lived[name]
    return tuple(mutant for mutant in mutants if mutant.id in lived)


def _loses(lab: Lab, hand_in: HandIn) -> bool:
    """Whether a check that ran took points; optional ones, worth none, may stay ungraded."""
    worth = {check.name for check in lab.checks if check.points}
    ran = {result.check: result.outcome for result in hand_in.results if result.check in worth}
    undecided = [name for name, outcome in ran.items() if outcome is Outcome.NOT_GRADED]
    if undecided:
        raise Ungraded(f"{hand_in.student}: {', '.join(undecided)} could not be graded")
    return any(outcome is not Outcome.PASSED for outcome in ran.values())

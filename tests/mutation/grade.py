"""Mutants as hand-ins: which of them the real grader lets through with all points."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from autograder.course.records import HandIn, Lab, Outcome, Submission
from autograder.course.score import points_of
from autograder.grading.engine import Engine, Options
from autograder.grading.prepare import hidden_cases
from tests.mutation.mutants import Mutant

SECRET = b"a secret of the mutants"


class Ungraded(Exception):
    """A mutant could not be graded: neither killed nor a survivor; the text says which."""


def survivors(
    lab: Lab, sources: Mapping[str, str], mutants: Iterable[Mutant]
) -> tuple[Mutant, ...]:
    """The mutants that lose no point, on public cases and on hidden ones.

    Raises:
        Ungraded: a check of one could not be judged; or the solution itself loses points, and
            then a killed mutant proves nothing.
    """
    found = {mutant.id: mutant for mutant in mutants}
    lived = []
    with tempfile.TemporaryDirectory() as folder:
        hidden = hidden_cases(lab.name, Path(folder), SECRET)
        with Engine(lab, Options(hidden_cases=hidden, jobs=2, diagnose=False)) as engine:
            engine.wait_ready()
            for hand_in in engine.grade(_hand_ins(sources, found)):
                if _perfect(lab, hand_in):
                    lived.append(hand_in.student)
    if "solution" not in lived:
        raise Ungraded("the solution itself loses points; mend that first (see tests/proof)")
    return tuple(found[name] for name in sorted(lived) if name in found)


def _hand_ins(sources: Mapping[str, str], mutants: Mapping[str, Mutant]) -> Iterator[Submission]:
    yield Submission("solution", sources)
    for name, mutant in mutants.items():
        yield Submission(name, {**sources, mutant.file: mutant.text})


def _perfect(lab: Lab, hand_in: HandIn) -> bool:
    """Whether it has all points; optional checks, which are worth none, may stay ungraded."""
    score = points_of(lab, hand_in.results)
    if score.undecided:
        undecided = [r.check for r in hand_in.results if r.outcome is Outcome.NOT_GRADED]
        raise Ungraded(f"{hand_in.student}: {', '.join(undecided)} could not be graded")
    return score.earned == score.total

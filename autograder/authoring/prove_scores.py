"""The promise about scores: graded as a class is, a stub earns 0 and a solution 100."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from autograder import intake
from autograder.authoring.place import Place
from autograder.course.messages import render
from autograder.course.records import CheckResult, HandIn, Lab, Outcome
from autograder.course.score import points_of
from autograder.grading import secret
from autograder.grading.engine import Engine, Options
from autograder.reference import cases, recipes
from autograder.reference.build import write_private


def breaches(place: Place) -> Iterator[str]:
    """Grade stub and solution on public and on throw-away hidden cases.

    Yields:
        Every check of the stub that is not ``not_started``, every check of the solution that
        did not pass (optional ones may be ungraded), and wrong sums.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        key = secret.find(None, folder)
        hidden = folder / "hidden.safetensors"
        made = recipes.build(recipes.of_lab(place.solution), key)
        write_private(hidden, cases.dump(made))
        stub, solution = _graded(place, Options(hidden_cases=hidden, order_seed=key))
        found = [*_stub_faults(place.lab, stub), *_solution_faults(place.lab, solution)]
        if found and (folder / "secret").exists():
            drawn = (folder / "secret").read_text().strip()
            yield f"with the hidden cases of {secret.VARIABLE}={drawn} (set it to repeat this):"
    yield from found


def _stub_faults(lab: Lab, stub: HandIn) -> Iterator[str]:
    for result in _of_all_checks(lab, stub):
        if result.outcome is not Outcome.NOT_STARTED:
            yield f"stub: {_said(result)}, but nothing in a stub is started"
    yield from _wrong_score(lab, stub, 0)


def _solution_faults(lab: Lab, solution: HandIn) -> Iterator[str]:
    optional = {check.name for check in lab.checks if check.optional}
    for result in _of_all_checks(lab, solution):
        ungraded = result.outcome is Outcome.NOT_GRADED and result.check in optional
        if result.outcome is not Outcome.PASSED and not ungraded:
            yield f"solution: {_said(result)}, but a solution passes"
    yield from _wrong_score(lab, solution, lab.points)


def _wrong_score(lab: Lab, hand_in: HandIn, wanted: int) -> Iterator[str]:
    score = points_of(lab, hand_in.results)
    if (score.earned, score.undecided) != (wanted, 0):
        yield (
            f"{hand_in.student}: earns {score.earned} points, {score.undecided} are undecided; "
            f"it has to earn {wanted}"
        )


def _graded(place: Place, options: Options) -> tuple[HandIn, HandIn]:
    folders = {"stub": place.folder, "solution": place.solution}
    hand_ins = [intake.read(intake.Entry(name, at), place.lab) for name, at in folders.items()]
    with Engine(place.lab, options) as engine:
        engine.wait_ready()
        graded = {hand_in.student: hand_in for hand_in in engine.grade(iter(hand_ins))}
    return graded["stub"], graded["solution"]


def _of_all_checks(lab: Lab, hand_in: HandIn) -> Iterator[CheckResult]:
    found = {result.check: result for result in hand_in.results}
    for check in lab.checks:
        yield found.get(check.name) or CheckResult(check.name, Outcome.NOT_GRADED)


def _said(result: CheckResult) -> str:
    why = f" ({render(result.message, 'en')})" if result.message else ""
    return f"{result.check} is {result.outcome.value}{why}"

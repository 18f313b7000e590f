"""One exercise of a lab, asked in this process: what the tests of every other tool call.

It runs in the tools' own environments. The work is that of grading, on the same public and
hidden cases, by grading's own runner; what differs is the tool around it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from autograder.checks.plan import CheckCase, Plan
from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import Outcome
from autograder.judge.runner import Runner
from autograder.reference import cases as case_files
from autograder.reference.cases import Case
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources
from autograder.worker.loader import read_sources


def failures(lab: str, exercise: str, hidden: str) -> str:
    """Ask the hand-in in the working folder everything about one exercise.

    Args:
        lab: its name or number.
        exercise: its id, such as ``"lab2.mlp"``.
        hidden: file of the hidden cases.

    Returns:
        What failed, a line per check; empty if nothing did.
    """
    plan = _plan(lab, hidden)
    wanted = next(one for one in plan.lab.exercises if one.id == exercise)
    # A check without points waits for real weights, which no side here has.
    names = {check.name for check in wanted.checks if check.points}
    files, paths = read_sources(Path.cwd(), plan.lab.files)
    transport = LocalTransport(Sources(files, paths))
    try:
        results = Runner(plan, transport).run({}, names)
    finally:
        transport.close()
    return "\n".join(
        f"{result.check}: {render(result.message, 'en') if result.message else result.outcome}"
        for result in results
        if result.outcome is not Outcome.PASSED
    )


@lru_cache
def _plan(lab: str, hidden: str) -> Plan:
    """The lab's checks with their cases; without pytest's collection, which costs more."""
    found = labfile.load(labfile.find_lab(lab))
    by_recipe: dict[str, list[Case]] = {}
    for file in (found.folder / "cases.safetensors", Path(hidden)):
        for case in case_files.load(file):
            by_recipe.setdefault(case.recipe, []).append(case)
    check_cases: dict[str, tuple[CheckCase, ...]] = {check.name: () for check in found.checks}
    for name, function in _checks(found.folder):
        if name in check_cases:
            recipes = [recipe for mark in function.pytestmark for recipe in mark.args]
            cases = [case for recipe in recipes for case in by_recipe.get(recipe, ())]
            check_cases[name] = tuple(CheckCase(name, case, function) for case in cases)
    return Plan(found, check_cases)


def _checks(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every check of the lab in ``folder`` by name; the modules are imported."""
    for path in sorted((folder / "checks").glob("test_*.py")):
        module = importlib.import_module(f"labs.{folder.name}.checks.{path.stem}")
        yield from inspect.getmembers(module, lambda one: hasattr(one, "pytestmark"))

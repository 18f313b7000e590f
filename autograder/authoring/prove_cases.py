"""Promises about cases: the recipes give what is checked in, and the checks use them all."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from autograder.authoring.answers import catalogue_of, sources_of
from autograder.authoring.place import LabSources, NotProvedError
from autograder.checks import expect
from autograder.checks.plan import CheckCase, collect
from autograder.course import suggestions
from autograder.reference import cases, recipes
from autograder.reference.cases import Case
from autograder.reference.compare import Array, Difference, difference
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.ranks import RankReplies, Request
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply, Sources
from autograder.wire.messages import Tensor

# float64 rounded to float32: another processor may round the last bit another way.
TOLERANCE = 1e-6
_REAL = "_real"  # such recipes need real weights, and are built while grading
_INFINITE = 1e30  # masks hold such values; they say nothing about the scale of the others


def stale(place: LabSources) -> Iterator[str]:
    """Differences between the checked-in public cases and what the recipes give.

    Raises:
        NotProvedError: they differ, but another torch release drew them.
    """
    kept, made = cases.load(place.cases), fresh(place)
    found = list(differences(kept, made))
    drawn_by, here = cases.release(place.cases), torch_release()
    where = place.shown(place.cases)
    same_kind = [(c.name, c.recipe) for c in kept] == [(c.name, c.recipe) for c in made]
    if found and same_kind and drawn_by not in ("", here):
        raise NotProvedError(
            f"{where} was drawn by torch {drawn_by}; torch {here} draws other numbers "
            f"({found[0]}). Audit under torch {drawn_by}, or build anew"
        )
    for one in found:
        yield f"{where}: {one}; run: {suggestions.command('build')}"


def fresh(place: LabSources) -> tuple[Case, ...]:
    """The public cases as the recipes give them now."""
    from autograder.reference import recipes

    return recipes.build(recipes.of_lab(place.solution), None)


def torch_release() -> str:
    """The release of the torch at hand, without its build (``+cpu``)."""
    import torch

    return torch.__version__.split("+")[0]


def differences(kept: Sequence[Case], made: Sequence[Case]) -> Iterator[str]:
    """Return what tells two sets of cases apart, in words.

    Configs, scalars and whole numbers have to be equal, other tensors up to ``TOLERANCE``.
    """
    old, new = {case.name: case for case in kept}, {case.name: case for case in made}
    for name in sorted(old.keys() - new.keys()):
        yield f"no recipe gives the case {name} any more"
    for name in sorted(new.keys() - old.keys()):
        yield f"the case {name} is absent"
    for name in sorted(old.keys() & new.keys()):
        one, other = old[name], new[name]
        for part in ("recipe", "hidden", "about", "config", "values"):
            if getattr(one, part) != getattr(other, part):
                yield f"the case {name} has another {part}"
        if one.tensors.keys() != other.tensors.keys():
            odd = ", ".join(sorted(one.tensors.keys() ^ other.tensors.keys()))
            yield f"the case {name} has other tensors ({odd})"
        for key in sorted(one.tensors.keys() & other.tensors.keys()):
            if not _near(one.tensors[key], other.tensors[key]):
                yield f"the case {name} has other values in {key}"


def _near(one: Tensor, other: Tensor) -> bool:
    if one == other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape or "float" not in one.dtype:
        return False
    have, want = one.array.astype(np.float64), other.array.astype(np.float64)
    usual: NDArray[np.float64] = want[np.abs(want) < _INFINITE]
    scale = float(np.sqrt((usual**2).mean())) if usual.size else 0.0
    return np.allclose(have, want, rtol=TOLERANCE, atol=TOLERANCE * scale)


def unmatched(place: LabSources) -> Iterator[str]:
    """Checks, recipes, experiments and mistakes that nobody runs, draws or names."""
    from autograder.reference import recipes

    known = {recipe.name for recipe in recipes.of_lab(place.solution)}
    marks = _marks(place, "test_*.py", "test_")
    wanted = {name: (path, found.get("cases", ())) for name, (path, found) in marks.items()}
    listed = {check.name: check for check in place.lab.checks}
    toml = place.shown(place.folder / "lab.toml")
    recipes_file = place.shown(place.solution / "cases")
    for test, (path, names) in wanted.items():
        where = f"{place.shown(path)}: {test}"
        if test not in listed:
            yield f"{where} is no check of {toml}; list it, or delete it"
        if not names:
            yield f"{where} asks for no cases; mark it with @cases(…)"
        for name in names:
            optional = name.endswith(_REAL) and test in listed and listed[test].optional
            if name not in known and not optional:
                yield f"{where} asks for {name}, and {recipes_file} has no such recipe"
    experiments = _marks(place, "behaviours.py", "behaves_")
    yield from _unmatched_experiments(place, experiments)
    asked = [found.get("cases", ()) for _, found in (*marks.values(), *experiments.values())]
    used = {name for names in asked for name in names}
    for name in sorted(known - used):
        yield f"{recipes_file}: no check uses the recipe {name}; delete it"


Marks = dict[str, tuple[Path, dict[str, tuple[str, ...]]]]


def _unmatched_experiments(place: LabSources, experiments: Marks) -> Iterator[str]:
    words = catalogue_of(place).words if place.misconceptions.exists() else {}
    exercises = {exercise.id for exercise in place.lab.exercises}
    shown = set()
    for name, (path, marks) in experiments.items():
        where = f"{place.shown(path)}: {name}"
        if "behaviour" not in marks or "cases" not in marks:
            yield f"{where} needs both @behaviour(mistake, exercise) and @cases(…)"
            continue
        mistake, exercise = marks["behaviour"]
        shown.add(mistake)
        if mistake not in words:
            yield f"{where} shows {mistake}, and {place.shown(place.misconceptions)} has no such id"
        if exercise not in exercises:
            yield f"{where} is for {exercise}, and lab.toml has no such exercise"
    if place.misconceptions.exists():
        for mistake in sorted(catalogue_of(place).behaviours.keys() - shown):
            file = place.shown(place.misconceptions)
            yield f"{file}: no experiment shows the behaviour {mistake}; write one, or delete it"


def _marks(place: LabSources, files: str, prefix: str) -> Marks:
    """File and marks of every function so called in the checks."""
    found: Marks = {}
    for path in sorted((place.folder / "checks").glob(files)):
        spec = importlib.util.spec_from_file_location(f"{place.name}_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, item in vars(module).items():
            if name.startswith(prefix) and callable(item):
                marks = {mark.name: mark.args for mark in getattr(item, "pytestmark", ())}
                found[name] = (path, marks)
    return found


# The promise about answers: no check expects a tensor that another request held.

SECRET = b"the secret of an audit"  # whatever the secret, the same tensors are shared
FEWEST = 4  # different numbers in a tensor that tells something; a mask has two


@dataclass(frozen=True)
class Numbers:
    """Searchable content of a tensor: its numbers in a row, and its rows, in two orders each.

    The second order is that of the tensor with its last two dimensions changed about.
    """

    forms: tuple[bytes, ...]
    widths: tuple[int, ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Numbers | None:
        """Those of an array; None where it is too plain to tell anything."""
        wide = np.ascontiguousarray(array, np.float64)
        if _is_plain(wide):
            return None
        both = [wide, wide.swapaxes(-1, -2)] if wide.ndim > 1 else [wide.reshape(-1)]
        return cls(tuple(one.tobytes() for one in both), tuple(one.shape[-1] for one in both))

    def tells(self, wanted: Numbers) -> bool:
        """Return whether this one holds the other, or is most of it.

        Most is half: a single row that is left as it was, as a first token is, tells little.
        """
        much = 2 * len(self.forms[0]) >= len(wanted.forms[0])
        return self.holds(wanted) or (much and wanted.holds(self))

    def holds(self, part: Numbers) -> bool:
        """Return whether the other can be cut out of this one."""
        if not part._some <= self._values:
            return False
        if any(rows and rows <= own for own in self._rows for rows in part._rows):
            return True
        return any(form in own for own in self.forms for form in part.forms)

    @cached_property
    def _rows(self) -> tuple[frozenset[bytes], ...]:
        both = zip(self.forms, self.widths, strict=True)
        tables = [np.frombuffer(form).reshape(-1, width) for form, width in both]
        return tuple(
            frozenset(row.tobytes() for row in table if not _is_plain(row)) for table in tables
        )

    @cached_property
    def _values(self) -> frozenset[float]:
        return frozenset(np.frombuffer(self.forms[0]).tolist())

    @cached_property
    def _some(self) -> frozenset[float]:
        """A few of the values: where one is absent nothing else has to be compared."""
        return frozenset(islice(self._values, FEWEST))


def _is_plain(numbers: NDArray[Any]) -> bool:
    """Return whether anybody could make them: a few different ones, or the count of positions."""
    flat = numbers.reshape(-1)
    first = flat[0] if flat.size else 0.0
    counted = np.array_equal(flat, first + np.arange(flat.size)) if np.isfinite(first) else False
    return counted or len(set(flat.tolist())) < FEWEST


@dataclass
class _CaseNumbers:
    """One check on one case: the numbers that it gives, and those that it expects."""

    check_case: CheckCase
    given: set[Numbers] = field(default_factory=set)
    expected: set[Numbers] = field(default_factory=set)


class _TensorWatcher(LocalTransport):
    """A transport that writes down the tensors of every request."""

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self.given: set[Numbers] = set()
        self._known: dict[Tensor, Numbers | None] = {}

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Write down, and execute."""
        self._note(tensors)
        return super().exchange(request, tensors)

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """The same for every rank: they can tell each other what they hold."""
        for _, tensors in requests:
            self._note(tensors)
        return super().exchange_ranks(requests)

    def _note(self, tensors: Mapping[str, Tensor]) -> None:
        for tensor in tensors.values():
            if tensor not in self._known:
                self._known[tensor] = Numbers.of(tensor.array)
            numbers = self._known[tensor]
            if numbers is not None:
                self.given.add(numbers)


def handed_out(place: LabSources) -> Iterator[str]:
    """Checks whose expectation another check, or another case, gives to the same worker.

    The order is not asked for: cases are shuffled, checks are skipped, run again and sent ahead.
    But public cases are all over before a hidden one is asked. What a check gives itself is no
    finding: what is to be loaded, or kept in a cache, has to be given.
    """
    found = _asked(place)
    holders: dict[Numbers, list[CheckCase]] = {}
    for one in found:
        for numbers in one.given:
            holders.setdefault(numbers, []).append(one.check_case)
    told: set[tuple[str, str, str]] = set()  # check, recipe, the other check
    for one in found:
        news = one.expected - one.given
        # Not what can be cut out of its own arguments, unless somebody else has it cut already.
        made = {wanted for wanted in news if not any(own.holds(wanted) for own in one.given)}
        for held in holders.keys() - one.given:
            if held in news or any(map(held.tells, made)):
                told.update(
                    (one.check_case.check, one.check_case.case.recipe, other.check)
                    for other in holders[held]
                    if one.check_case.case.hidden or not other.case.hidden
                )
    for check, recipe, other in sorted(told):
        yield (
            f"{check} expects on {recipe} what {other} gives to the same worker; "
            "let one of them draw cases of its own"
        )


def _asked(place: LabSources) -> list[_CaseNumbers]:
    """Return what the solution is asked, on public cases and on hidden ones."""
    plan, transport = collect(place.folder), _TensorWatcher(Sources(sources_of(place)))
    hidden = recipes.build(recipes.of_lab(place.solution), SECRET)
    found = []
    # Workers are without oneDNN, whose bfloat16 kernels round in other places.
    before = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        for public in plan.check_cases.values():
            used = {check_case.case.recipe for check_case in public}
            more = (replace(public[0], case=case) for case in hidden if case.recipe in used)
            for check_case in (*public, *more):
                transport.given = set()
                with _noted() as expected:
                    student = Student(transport)
                    check_case.run(student, check_case.case)
                    student.flush()
                found.append(_CaseNumbers(check_case, transport.given, expected))
    finally:
        torch.backends.mkldnn.set_flags(before[0])  # type: ignore[no-untyped-call]
        transport.close()
    return found


@contextmanager
def _noted() -> Iterator[set[Numbers]]:
    """The references of all comparisons that checks make meanwhile."""
    expected: set[Numbers] = set()

    def noting(got: Array, want: Array, keep: NDArray[np.bool_] | None = None) -> Difference:
        numbers = Numbers.of(want)
        if numbers is not None:
            expected.add(numbers)
        return difference(got, want, keep)

    with mock.patch.object(expect, "difference", noting):
        yield expected

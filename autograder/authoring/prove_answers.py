"""The promise about answers: no check expects a tensor that another request held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from autograder.authoring.answering import sources_of
from autograder.authoring.place import Place
from autograder.harness import checks
from autograder.harness.collected import collect
from autograder.harness.plan import Trial
from autograder.reference import recipes
from autograder.reference.compare import Array, Difference, difference
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.ranks import Met, Request
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply, Sources
from autograder.sandbox.wire import Tensor

SECRET = b"the secret of an audit"  # whatever the secret, the same tensors are shared
FEWEST = 4  # different numbers in a tensor that tells something; a mask has two


@dataclass(frozen=True)
class Numbers:
    """What can be found in a tensor: its numbers in a row, and its rows, in two orders each.

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
        """Whether this one holds the other, or is most of it.

        Most is half: a single row that is left as it was, as a first token is, tells little.
        """
        much = 2 * len(self.forms[0]) >= len(wanted.forms[0])
        return self.holds(wanted) or (much and wanted.holds(self))

    def holds(self, part: Numbers) -> bool:
        """Whether the other can be cut out of this one."""
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
    """Whether anybody could make them: a few different ones, or the count of positions."""
    flat = numbers.reshape(-1)
    first = flat[0] if flat.size else 0.0
    counted = np.array_equal(flat, first + np.arange(flat.size)) if np.isfinite(first) else False
    return counted or len(set(flat.tolist())) < FEWEST


@dataclass
class _Asked:
    """One check on one case: the numbers that it gives, and those that it expects."""

    trial: Trial
    given: set[Numbers] = field(default_factory=set)
    expected: set[Numbers] = field(default_factory=set)


class _Watching(LocalTransport):
    """A transport that writes down the tensors of every request."""

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self.given: set[Numbers] = set()
        self._known: dict[Tensor, Numbers | None] = {}

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Write down, and execute."""
        self._note(tensors)
        return super().exchange(request, tensors)

    def exchange_ranks(self, requests: Sequence[Request]) -> Met:
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


def handed_out(place: Place) -> Iterator[str]:
    """Checks whose expectation another check, or another case, gives to the same worker.

    The order is not asked for: cases are shuffled, checks are skipped, run again and sent ahead.
    But public cases are all over before a hidden one is asked. What a check gives itself is no
    finding: what is to be loaded, or kept in a cache, has to be given.
    """
    found = _asked(place)
    holders: dict[Numbers, list[Trial]] = {}
    for one in found:
        for numbers in one.given:
            holders.setdefault(numbers, []).append(one.trial)
    told: set[tuple[str, str, str]] = set()  # check, recipe, the other check
    for one in found:
        news = one.expected - one.given
        # Not what can be cut out of its own arguments, unless somebody else has it cut already.
        made = {wanted for wanted in news if not any(own.holds(wanted) for own in one.given)}
        for held in holders.keys() - one.given:
            if held in news or any(map(held.tells, made)):
                told.update(
                    (one.trial.check, one.trial.case.recipe, other.check)
                    for other in holders[held]
                    if one.trial.case.hidden or not other.case.hidden
                )
    for check, recipe, other in sorted(told):
        yield (
            f"{check} expects on {recipe} what {other} gives to the same worker; "
            "let one of them draw cases of its own"
        )


def _asked(place: Place) -> list[_Asked]:
    """What the solution is asked, on public cases and on hidden ones."""
    plan, transport = collect(place.folder), _Watching(Sources(sources_of(place)))
    hidden = recipes.build(recipes.of_lab(place.solution), SECRET)
    found = []
    # Workers are without oneDNN, whose bfloat16 kernels round in other places.
    before = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        for public in plan.trials.values():
            used = {trial.case.recipe for trial in public}
            more = (replace(public[0], case=case) for case in hidden if case.recipe in used)
            for trial in (*public, *more):
                transport.given = set()
                with _noted() as expected:
                    student = Student(transport)
                    trial.run(student, trial.case)
                    student.flush()
                found.append(_Asked(trial, transport.given, expected))
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

    with mock.patch.object(checks, "difference", noting):
        yield expected

"""How far an answer is right: the stages of a computation, found again in what torch made.

A stage is known by a few numbers that do not depend on the layout of its tensor (see
:mod:`autograder.sandbox.traced`), so that it is found in code of any style. What is not found may
still be right, in code that never makes that tensor; so a stage counts as right, too, when one
that is made from it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.course.records import Text

TOLERANCE = 1e-4  # of the root mean square, to the power that a number has
COLUMNS = 6  # of autograder.sandbox.traced, which is not imported here: it needs torch
_POWERS = (1, 2, 3, 4)

Row = tuple[float, ...]  # the columns of autograder.sandbox.traced


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        id: a short name.
        name: what it is, for a sentence.
        after: ids of the stages that it is made from.
        rows: its numbers, one for each way to compute it that is as good.
        ordered: whether the order of its elements is given, too.
    """

    id: str
    name: Text
    after: tuple[str, ...]
    rows: tuple[Row, ...]
    ordered: bool = False


@dataclass(frozen=True)
class Course:
    """The stages of one call of a check on a case, in their order."""

    check: str
    case: str
    stages: tuple[Stage, ...]


def furthest(
    stages: Sequence[Stage], made: NDArray[np.float64]
) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """Up to where a computation is right, and what differs first.

    Args:
        stages: in their order.
        made: ``[steps, columns]``, what torch made.

    Returns:
        The last stages that are right, and the first that were not found although all they are
        made from is right. The latter are empty if all were found.
    """
    right: set[str] = set()
    for stage in reversed(stages):
        used = any(stage.id in other.after and other.id in right for other in stages)
        if used or any(_found(row, made, ordered=stage.ordered) for row in stage.rows):
            right.add(stage.id)
    wrong = tuple(s for s in stages if s.id not in right and right.issuperset(s.after))
    needed = {name for stage in wrong for name in stage.after}
    return tuple(stage for stage in stages if stage.id in needed), wrong


def _found(row: Row, made: NDArray[np.float64], *, ordered: bool) -> bool:
    """Whether one of the steps has the numbers of ``row``."""
    if not made.size:
        return False
    want = np.array(row)
    size = want[2] ** 0.5  # the root mean square
    bounds = TOLERANCE * size ** np.array(_POWERS, np.float64)
    alike = (made[:, 0] == want[0]) & (np.abs(made[:, 1:5] - want[1:5]) <= bounds).all(axis=1)
    if ordered:
        alike &= np.abs(made[:, 5] - want[5]) <= TOLERANCE * size
    return bool(alike.any())


def to_plain(course: Course) -> dict[str, Any]:
    """As JSON data."""
    stages = [
        {
            "id": stage.id,
            "name": [stage.name.en, stage.name.zh],
            "after": list(stage.after),
            "rows": [list(row) for row in stage.rows],
            "ordered": stage.ordered,
        }
        for stage in course.stages
    ]
    return {"check": course.check, "case": course.case, "stages": stages}


def from_plain(raw: Mapping[str, Any]) -> Course:
    """The inverse of :func:`to_plain`. Raises LookupError, TypeError."""
    stages = tuple(
        Stage(
            one["id"],
            Text(*one["name"]),
            tuple(one["after"]),
            tuple(tuple(row) for row in one["rows"]),
            one["ordered"],
        )
        for one in raw["stages"]
    )
    return Course(raw["check"], raw["case"], stages)

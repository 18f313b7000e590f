"""Answers as items that can be compared: a form, and where there are any, numbers; and stages.

The calls of the checks on their public cases are the observations: whoever adds a check adds to
every fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.course.records import Lab, Text
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS
from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.student import Other, Result
from autograder.wire.messages import KEPT, Tensor

Vector = NDArray[np.float64]
_SAME = 1e-6  # relative: two calls that differ by more are two answers
DETAIL = " | "  # in a form: what follows may differ between hand-ins with the same mistake
END = "/end"  # of the key of an item: what ended a check on a case
NOT_FINITE = "not finite"
VARIES = "varies"  # the form of an item that another call of the same kind did not repeat


@dataclass(frozen=True)
class Item:
    """One thing that came back.

    Attributes:
        form: dtype and shape, or what came instead of a tensor (an exception, a number's kind).
        values: all its numbers, flat, those that are not finite as 0; empty without numbers.
        weight: what an error in it counts; narrow dtypes are coarse, and count little.
    """

    form: str
    values: Vector
    weight: float = 1.0


@dataclass(frozen=True)
class Answer:
    """The answers to one check on one case, in order, and the exception that ended it, if any."""

    check: str
    case: Case
    results: Sequence[Result]
    error: Exception | None = None


Trace = Mapping[str, Item]  # by check, case, number of the call and place in its value
_NOTHING = np.zeros(0)


def by_exercise(lab: Lab, answers: Iterable[Answer]) -> dict[str, Trace]:
    """Everything that came back as a trace for each exercise, in the order of the lab."""
    owner = {check.name: check.exercise for check in lab.checks}
    found: dict[str, list[Answer]] = {exercise.id: [] for exercise in lab.exercises}
    for answer in answers:
        found[owner[answer.check]].append(answer)
    return {name: trace_of(group) for name, group in found.items()}


def trace_of(answers: Sequence[Answer]) -> dict[str, Item]:
    """Everything that came back in one exercise, by where it was asked.

    Calls that were repeated within one check and did not repeat their answer show that nothing
    else can be relied on: every item then keeps its form only.
    """
    items: dict[str, Item] = {}
    varies = False
    for answer in answers:
        seen: dict[tuple[int, str], Item] = {}  # objects have numbers for each who is asked
        dtype = answer.case.values.get("dtype", "float32")
        for number, result in enumerate(answer.results):
            key = f"{answer.check}/{answer.case.name}/{number}"
            if not result.ready:
                if result.verdict:
                    items[f"{key}/raised"] = Item(result.verdict, _NOTHING)
                continue
            for place, item in _items(result, _weight(dtype)):
                items[f"{key}{place}"] = item
                if question := _question(result.step, place):
                    asked = id(result.student), question
                    varies |= asked in seen and not is_equal(seen[asked], item)
                    seen[asked] = item
        if isinstance(answer.error, StudentError):
            items[f"{answer.check}/{answer.case.name}{END}"] = Item(_raised(answer.error), _NOTHING)
        elif isinstance(answer.error, WorkerLost):
            items[f"{answer.check}/{answer.case.name}{END}"] = Item("lost", _NOTHING)
    if varies:
        return {key: Item(f"{VARIES} {item.form}", _NOTHING) for key, item in items.items()}
    return items


def _items(result: Result, weight: float) -> Iterator[tuple[str, Item]]:
    value = result.value
    if "measure" in result.step:
        # Costs differ from style to style; what the check says of them does not.
        yield from _parts("", value[0], weight)
        if result.verdict:
            yield "/cost", Item(result.verdict, _NOTHING)
        return
    if not result.step.get("echo"):
        yield from _parts("", value, weight)
        return
    value, args, kwargs = value
    yield from _parts("", value, weight)
    # Whether an argument was changed is the mistake; to what, is not.
    after = [*args, *kwargs.values()]
    changed = [
        str(number)
        for number, (given, now) in enumerate(zip(result.given, after, strict=True))
        for before in [Tensor.of(given) if isinstance(given, np.ndarray) else given]
        if isinstance(before, (Tensor, dict)) and before != now
    ]
    yield "/arguments", Item(f"changed: {' '.join(changed) or 'none'}", _NOTHING)


def _parts(place: str, value: Any, weight: float) -> Iterator[tuple[str, Item]]:
    if isinstance(value, (tuple, list)) and len(value) <= 16:
        yield f"{place}/kind", Item(f"{type(value).__name__} of {len(value)}", _NOTHING)
        for number, part in enumerate(value):
            yield from _parts(f"{place}/{number}", part, weight)
    elif isinstance(value, dict) and len(value) <= 64:
        yield f"{place}/kind", Item(f"dict of {', '.join(sorted(value))[:200]}", _NOTHING)
        for name in sorted(value):
            yield from _parts(f"{place}/{name}", value[name], weight)
    else:
        if isinstance(value, Tensor):
            weight = min(weight, _weight(value.dtype))
        yield place, Item(_form(value), _numbers(value), weight)


def _form(value: Any) -> str:
    if isinstance(value, Tensor):
        broken = 0
        if value.dtype.startswith(("float", "bfloat")):
            broken = int((~np.isfinite(value.array)).sum())
        sides = ",".join(map(str, value.shape))
        return f"{value.dtype}[{sides}]" + (f" {NOT_FINITE}{DETAIL}{broken}" if broken else "")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)[:80] if isinstance(value, Other) else _shortened(repr(value))
    return "number"


def _shortened(text: str) -> str:
    """Its beginning; of what is left out, what tells it from another end."""
    if len(text) <= 80:
        return text
    return f"{text[:70]} {hashlib.sha256(text.encode()).hexdigest()[:9]}"


def _weight(dtype: str) -> float:
    return LIMITS["float32"].tensor / LIMITS[dtype].tensor if dtype in LIMITS else 1.0


def _numbers(value: Any) -> Vector:
    if isinstance(value, Tensor):
        with np.errstate(invalid="ignore"):  # memory that was never written holds any bits
            flat = np.asarray(value.array, np.float64).reshape(-1)
    elif type(value) in (int, float):
        flat = np.array([float(value)])
    else:
        return _NOTHING
    return np.where(np.isfinite(flat), flat, 0.0)


def _question(step: Mapping[str, Any], place: str) -> str:
    """A call's target and arguments, if all of them are known by name beyond one message."""
    asked = ("target", "method", "args", "kwargs", "rank")
    text = json.dumps([step.get(part) for part in asked])
    if place or step["op"] != "call" or text.count('"$t"') != text.count(f'{{"$t": "{KEPT}'):
        return ""
    return text


def is_equal(one: Item, other: Item) -> bool:
    """Whether two answers are the same, up to rounding."""
    if one.form != other.form or one.values.shape != other.values.shape:
        return False
    gap = float(np.linalg.norm(one.values - other.values))
    return gap <= _SAME * (float(np.linalg.norm(one.values)) or 1.0)


def _raised(error: StudentError) -> str:
    """Stage and type of an exception, and what it says, sizes among it, as a detail."""
    if error.stage == "weights":
        return f"weights: {error.lacking} {error.extra} {error.shapes}"
    return f"{error.stage}: {error.type}{DETAIL}{error.text.replace(*_SINCE_3_12)[:120]}"


# Of min and max: what Python says since 3.12, and what it said before, as banks have it.
_SINCE_3_12 = "iterable argument is empty", "arg is an empty sequence"


# How far an answer is right: the stages of a computation, found again in what torch made.
#
# A stage is known by a few numbers that do not depend on the layout of its tensor (see
# :mod:`autograder.worker.session`), so that it is found in code of any style. What is not found may
# still be right, in code that never makes that tensor; so a stage counts as right, too, when one
# that is made from it is.

TOLERANCE = 1e-4  # of the root mean square, to the power that a number has
COLUMNS = 6  # of autograder.worker.session, which is not imported here: it needs torch
_POWERS = (1, 2, 3, 4)

Row = tuple[float, ...]  # the columns of autograder.worker.session


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
class StagePlan:
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
    """Return whether one of the steps has the numbers of ``row``."""
    if not made.size:
        return False
    want = np.array(row)
    size = want[2] ** 0.5  # the root mean square
    bounds = TOLERANCE * size ** np.array(_POWERS, np.float64)
    alike = (made[:, 0] == want[0]) & (np.abs(made[:, 1:5] - want[1:5]) <= bounds).all(axis=1)
    if ordered:
        alike &= np.abs(made[:, 5] - want[5]) <= TOLERANCE * size
    return bool(alike.any())


def to_plain(course: StagePlan) -> dict[str, Any]:
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


def from_plain(raw: Mapping[str, Any]) -> StagePlan:
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
    return StagePlan(raw["check"], raw["case"], stages)

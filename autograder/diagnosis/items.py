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
# that is made from it is, or when pieces of it are; and as wrong only where it was made.

TOLERANCE = 1e-4  # of the root mean square, to the power that a number has
COLUMNS = 6  # of autograder.worker.session, which is not imported here: it needs torch
MAX_STEPS = 500  # of it, too: what one call writes down
_POWERS = (1, 2, 3, 4, 1)  # of the numbers behind the size
_AS_GOOD = (1.0, np.log2(np.e))  # to scale by them is right: a softmax may be to base 2

Row = tuple[float, ...]  # the columns of autograder.worker.session
Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]


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


Stages = tuple[Stage, ...]


@np.errstate(all="ignore")
def furthest(stages: Sequence[Stage], made: Rows) -> tuple[Stages, Stages, Stages]:
    """Up to where a computation is right, and what differs first.

    Args:
        stages: in their order.
        made: ``[steps, columns]``, what torch made; of a call that was forged, any numbers.

    Returns:
        The last stages that are right; those of them whose order may be another; and the first
        that differ, all that they are made from being right, or never made as a whole.
    """
    made = made[:MAX_STEPS]
    all_made = np.concatenate([made, *_pieces(stages, made)])
    right: set[str] = set()
    loose: set[str] = set()
    for stage in reversed(stages):
        rows = [row for row in stage.rows if not _scaled_again(row, stage, stages, all_made)]
        if stage.ordered:
            rows = [row for row in rows if not _moved_again(row, made)]
        used = any(stage.id in other.after and other.id in right for other in stages)
        exact = used or _like(rows, all_made, ordered=True).any()
        if exact or (not stage.ordered and _like(rows, all_made).any()):
            right.add(stage.id)
            loose |= set() if exact else {stage.id}
    wrong: list[Stage] = []
    beyond: set[str] = set()  # those that differ, and what is made from them
    needed: set[str] = set()
    since: dict[str, int] = {}  # where all that a stage is made from has been made
    last: dict[str, set[str]] = {}  # the last stages before that are right
    left = [stage for stage in stages if stage.id not in right]
    for stage in stages:
        begin = max((since[name] for name in stage.after), default=0)
        before = {one for name in stage.after for one in last[name]}
        if stage.id in right:
            before = {stage.id}
            begin = max([begin, *(1 + np.flatnonzero(_like(stage.rows, made))[:1])])
        elif beyond.intersection(stage.after):
            beyond.add(stage.id)
        elif _differs(left[left.index(stage) :], stages, made[begin:]):
            wrong.append(stage)
            beyond.add(stage.id)
            needed |= before
        since[stage.id], last[stage.id] = begin, before
    agrees = tuple(stage for stage in stages if stage.id in needed)
    return agrees, tuple(stage for stage in agrees if stage.id in loose), tuple(wrong)


def _like(rows: Iterable[Row], made: Rows, *, ordered: bool = False, size: bool = True) -> Flags:
    """Return which of the steps have the numbers of one of ``rows``, in their order or any."""
    found = np.zeros(len(made), bool)
    for row in rows:
        want = np.array(row)
        root = want[2] ** 0.5  # the root mean square
        near = np.abs(made[:, 1:] - want[1:]) <= TOLERANCE * root ** np.array(_POWERS)
        found |= near[:, : 5 if ordered else 4].all(axis=1) & ((made[:, 0] == want[0]) | (not size))
    return found


def _pieces(stages: Sequence[Stage], made: Rows) -> Iterator[Rows]:
    """The pieces that a loop makes, joined: every so-and-so-many-th tensor of one size."""
    for size in np.unique(made[:, 0]):
        parts = made[made[:, 0] == size]
        for whole in {row[0] for stage in stages for row in stage.rows}:
            if not (whole % size == 0 and 1 < whole / size <= len(parts)):
                continue
            count = int(whole / size)
            for step in range(1, (len(parts) - 1) // (count - 1) + 1):
                length = len(parts) - step * (count - 1)
                turns = [parts[step * turn : step * turn + length] for turn in range(count)]
                joined = np.mean(turns, axis=0)
                joined[:, 0], joined[:, 5] = whole, np.nan  # in what order is not known
                yield joined


def _scaled_again(row: Row, stage: Stage, stages: Sequence[Stage], made: Rows) -> bool:
    """Return whether these numbers, which the stage before may have as well, are scaled later on.

    Then they are those of the stage before, and what comes of it is not this one.
    """
    seen = np.flatnonzero(_like([row], made))
    if not seen.size or not any(one.id in stage.after and row in one.rows for one in stages):
        return False
    later = made[seen[-1] + 1 :].copy()
    factors = np.sqrt(later[:, 2:3] / row[2])
    later[:, 1:] /= factors ** np.array(_POWERS)
    return bool((_like([row], later) & ~np.isclose(factors, _AS_GOOD, rtol=TOLERANCE).any(1)).any())


def _moved_again(row: Row, made: Rows) -> bool:
    """Return whether the last tensor that has these numbers has them in another order."""
    last = np.flatnonzero(_like([row], made))[-1:]
    return bool(last.size) and not _like([row], made[last], ordered=True).any()


def _differs(coming: Sequence[Stage], stages: Sequence[Stage], made: Rows) -> bool:
    """Return whether the first of those that are ``coming``, none of them right, was made wrong.

    It was if tensors of its size are left over, that are no other stage: one for each of them.
    """
    stage, size = coming[0], coming[0].rows[0][0]
    known = _like((row for one in stages for row in one.rows), made, size=False)
    left = made[(made[:, 0] == size) & (~known | _like(stage.rows, made))]
    needs = np.array([one.rows[-1] for one in coming if one.rows[0][0] == size])
    return _distinct(left) >= _distinct(needs)


def _distinct(rows: Rows) -> int:
    """Return how many differ in more than their order."""
    return len(np.unique(np.nan_to_num(rows[:, 1:5], posinf=0, neginf=0).round(6), axis=0))


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

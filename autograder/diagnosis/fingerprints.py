"""Fingerprints: what every known mistake answers, and how far a hand-in's answers are from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.diagnosis.items import DETAIL, END, NOT_FINITE, Item, Trace, is_equal

# Fixed random projections: a few numbers that stand for many, near exactly when those are.

WIDTH = 8  # numbers per item
SEED = 20_250_428


@lru_cache(maxsize=512)
def _signs(key: str, length: int) -> NDArray[np.float64]:
    """``[WIDTH, length]`` of +-1, the same under every release of numpy.

    Taken from the raw bits of the generator: only these are promised to stay.
    """
    seed = int.from_bytes(hashlib.sha256(f"{SEED} {key}".encode()).digest()[:8], "little")
    words = np.random.PCG64(seed).random_raw(-(-WIDTH * length // 64))
    bits = np.unpackbits(np.asarray(words, "<u8").view(np.uint8))[: WIDTH * length]
    return bits.reshape(WIDTH, length).astype(np.float64) * 2.0 - 1.0


def project(key: str, values: NDArray[np.float64], width: int = WIDTH) -> NDArray[np.float64]:
    """``[width]``: its length is that of ``values``, on average over keys.

    Args:
        key: which projection; equal keys and lengths give the same one.
        values: ``[n]``; nothing for n = 0 (then zeros).
        width: at most ``WIDTH``.
    """
    if not values.size:
        return np.zeros(width)
    found: NDArray[np.float64] = _signs(key, values.size)[:width] @ values / width**0.5
    return found


# Items as a bank keeps them: a projection, its length, and what tells equal ones.

SAME = 1e-6  # relative: what is nearer to the right answer than this is right
DIGITS = 5  # of what is compared with other mistakes
UNANSWERED = -1


@dataclass(frozen=True)
class Short:
    """An :class:`Item` without its numbers; ``digest`` is the same for the same numbers."""

    form: str
    vector: NDArray[np.float64]
    norm: float
    weight: float
    digest: bytes


def shortened(trace: Trace, width: int = WIDTH) -> dict[str, Short]:
    """A trace with projections to ``width`` numbers in the place of what came back."""
    return {key: _short(key, item, width) for key, item in trace.items()}


def _short(key: str, item: Item, width: int) -> Short:
    norm = float(np.linalg.norm(item.values))
    digest = hashlib.sha256(item.form.encode() + item.values.round(9).tobytes()).digest()
    return Short(item.form, project(key, item.values, width), norm, item.weight, digest)


def without_numbers(short: Short | None) -> Short | None:
    """The form alone, for what hangs on random numbers."""
    if short is None:
        return None
    form = bare_form(short.form)
    digest = hashlib.sha256(form.encode()).digest()
    return Short(form, np.zeros_like(short.vector), 0.0, 0.0, digest)


def bare_form(form: str) -> str:
    """Dtype and shape without what hangs on the numbers."""
    return form.split(f" {NOT_FINITE}")[0]


@dataclass
class Column:
    """All that mistakes answer at one place; the right answer is the first row, if there is one."""

    right: int
    found: list[Short]
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, reference: Short | None) -> Column:
        """A column with the right answer only."""
        return cls(UNANSWERED, []) if reference is None else cls(0, [reference])

    def row(self, short: Short | None) -> int:
        """The number of the row that holds ``short``, which is added where it is new."""
        if short is None:
            return UNANSWERED
        if self.right >= 0 and self._is_right(short):
            return self.right
        scaled = np.round(short.vector / (short.norm or 1.0), DIGITS) + 0.0
        size = round(math.log(short.norm), DIGITS) if short.norm else 0.0
        row = self._known.setdefault((short.form, size, scaled.tobytes()), len(self.found))
        if row == len(self.found):
            self.found.append(short)
        return row

    def _is_right(self, short: Short) -> bool:
        right = self.found[self.right]
        if short.form != right.form:
            return False
        gap = float(np.linalg.norm(short.vector - right.vector))
        return gap * right.weight <= SAME * (max(right.norm, short.norm) or 1.0)

    @property
    def weight(self) -> float:
        """Return what the right answer's dtype allows decides, not what came instead."""
        return self.found[0].weight if self.right >= 0 else min(s.weight for s in self.found)

    def contents(self, rows: Sequence[int]) -> tuple[object, ...]:
        """Equal for columns that hold the same: the same call stands in several checks."""
        return (tuple(rows), self.right, *(short.digest for short in self.found))


_LARGEST = float(np.finfo(np.float32).max)
FAR = 9.0  # between forms that differ; errors of numbers are relative, and rarely beyond 1
# Between forms of one kind: the words of an error are those of whoever writes the code, and how
# many numbers overflow hangs on the order of computing.
KIND = 1e-3
COUNT = 2e-4
CLEARLY = 1e-2  # farther than this from the right answer is no matter of rounding
MUCH = 10.0  # times as much, and two changes cannot cancel each other
RIGHT = 1e-5  # what is nearer to the right answer than this is right, in any style


@dataclass(frozen=True)
class Fingerprints:
    """The answers in one exercise under every mistake, or pair of mistakes, that shows there.

    Attributes:
        mistakes: the classes that act together, one or two per fingerprint.
        items: keys of :data:`Trace`, several where checks ask the same: any of them will do, and
            which ones a hand-in is asked hangs on what it fails before.
        rows: ``[mistakes, items]``, which row of its item a mistake gives, or ``UNANSWERED``.
        reference: ``[items]``, the row that the right solution gives.
        weights: ``[items]``, what an error in an item counts.
        vectors: ``[rows, width]`` projections.
        norms: ``[rows]`` lengths of what was projected.
        forms: a form per row.
        free: items, by number, that right code answers in several ways, such as the numbers of
            blocks: in another hand-in with the same mistake they may be others.
    """

    mistakes: tuple[tuple[str, ...], ...]
    items: tuple[tuple[str, ...], ...]
    rows: NDArray[np.int32]
    reference: NDArray[np.int32]
    weights: NDArray[np.float32]
    vectors: NDArray[np.float32]
    norms: NDArray[np.float32]
    forms: tuple[str, ...]
    free: tuple[int, ...] = ()

    @cached_property
    def firm(self) -> frozenset[str]:
        """First keys of the items that all right code answers alike."""
        return frozenset(k[0] for number, k in enumerate(self.items) if number not in self.free)

    def distances(self, trace: Trace, only: Container[str] = ()) -> NDArray[np.float64]:
        """``[mistakes]``: how far ``trace`` is from each, at the item where it is farthest.

        A check stops at the first case that it fails, and the order of cases differs from class
        to class: cases that were not asked tell nothing. A mistake is far when nothing was asked
        that shows it.

        Args:
            trace: what a hand-in answered.
            only: items to look at, by their first key; all if empty.
        """
        worst = np.zeros(len(self.mistakes))
        shown = np.zeros(len(self.mistakes), bool)
        asked = {_asked(key) for key in trace}
        for column, keys in enumerate(self.items):
            if (only and keys[0] not in only) or asked.isdisjoint(map(_asked, keys)):
                continue
            rows = self.rows[:, column]
            there = (rows >= 0) | np.any([self._answered[_asked(key)] for key in keys], axis=0)
            shown |= there & (rows != self.reference[column])
            known = np.unique(rows[rows >= 0])
            items = _answers(trace, keys)
            by_row = np.full(len(self.norms) + 1, FAR)  # the last one: UNANSWERED
            if items:
                by_row[known] = np.max([self._gaps(column, i, known) for i in items], axis=0)
            else:
                by_row[UNANSWERED] = 0.0
            worst = np.maximum(worst, by_row[rows])
        return np.where(shown, worst, FAR)

    @cached_property
    def _answered(self) -> dict[str, NDArray[np.bool_]]:
        """``[mistakes]`` by check and case: whether a mistake answers anything there at all.

        If not, what it needs has failed before, and its silence shows nothing.
        """
        found: dict[str, NDArray[np.bool_]] = {}
        for column, keys in enumerate(self.items):
            for place in map(_asked, keys):
                found[place] = found.get(place, False) | (self.rows[:, column] >= 0)
        return found

    def is_right(self, trace: Trace) -> bool:
        """Return whether all that was asked is answered as the solution answers it."""
        asked = {_asked(key) for key in trace}
        for column, keys in enumerate(self.items):
            if asked.isdisjoint(map(_asked, keys)):
                continue
            items, right = _answers(trace, keys), self.reference[column : column + 1]
            if bool(items) != (right[0] >= 0):
                return False
            if any(self._gaps(column, item, right)[0] > RIGHT for item in items):
                return False
        return True

    def is_strange(self, trace: Trace) -> bool:
        """Return whether a check was ended by an error where no mistake raises one."""
        known = {key for keys in self.items for key in keys}
        return any(key.endswith(END) and key not in known for key in trace)

    def agrees(
        self,
        trace: Trace,
        mistake: int,
        *,
        numbers: bool = False,
        clearly: bool = False,
        only: Container[str] = (),
    ) -> bool:
        """Return whether something that a mistake changes came back as the mistake has it.

        That an error is of the same kind is not enough: anything may raise it.

        Args:
            trace: what a hand-in answered.
            mistake: its number.
            numbers: only numbers tell, and only where they are far from the right ones.
            clearly: numbers tell only where they are far from the right ones; errors do, too.
            only: items to look at, by their first key; all if empty.
        """
        for column in np.flatnonzero(self.rows[mistake] != self.reference).tolist():
            if only and self.items[column][0] not in only:
                continue
            row, item = self.rows[mistake, column], _answered(trace, self.items[column])
            if row < 0 or item is None or self._gaps(column, item, np.array([row]))[0] >= KIND:
                continue
            right = self.reference[column : column + 1]
            silent = not item.values.size or right[0] < 0  # no numbers, or none to compare with
            if not (numbers or clearly) or (
                clearly if silent else self._gaps(column, item, right)[0] > CLEARLY
            ):
                return True
        return False

    def leans(self, trace: Trace, mistake: int) -> bool:
        """Return whether something that a mistake changes came back nearer to it than to what is
        right: errors in bfloat16 weigh so little that others are near it, too.

        Where nothing can be compared, nothing speaks against the mistake.
        """
        farther = False
        for column in np.flatnonzero(self.rows[mistake] != self.reference).tolist():
            rows = np.array([self.rows[mistake, column], self.reference[column]])
            if UNANSWERED in rows:
                continue
            for item in _answers(trace, self.items[column]):
                gap, right = self._gaps(column, item, rows)
                if gap < right:
                    return True
                farther |= bool(gap > right)
        return not farther

    def was_asked(self, trace: Trace, mistake: int) -> bool:
        """Return whether something was asked that a mistake changes."""
        asked = {_asked(key) for key in trace}
        changed = np.flatnonzero(self.rows[mistake] != self.reference).tolist()
        return any(not asked.isdisjoint(map(_asked, self.items[column])) for column in changed)

    def shows_many(self, trace: Trace, mistake: int) -> bool:
        """Return whether something that a mistake changes came back as more than one number."""
        changed = np.flatnonzero(self.rows[mistake] != self.reference).tolist()
        items = (_answered(trace, self.items[column]) for column in changed)
        return any(item is not None and item.values.size > 1 for item in items)

    def ruled_out(self, trace: Trace) -> NDArray[np.bool_]:
        """``[mistakes]``: whether something is right in ``trace`` that a mistake makes wrong."""
        found = np.zeros(len(self.mistakes), bool)
        for column, keys in enumerate(self.items):
            right, rows = self.reference[column : column + 1], self.rows[:, column]
            known = np.unique(rows[rows >= 0])
            for item in (trace[key] for key in keys if key in trace and right[0] >= 0):
                if self._gaps(column, item, right)[0] <= RIGHT:
                    found |= np.isin(rows, known[self._gaps(column, item, known) > KIND])
        return found

    def apart(self, trace: Trace, one: int, other: int) -> float:
        """Return how far ``trace`` is from two mistakes at once, where one of them shows nothing.

        There the other one decides alone: a bank of pairs holds fewer items, and this asks all.
        Where one changes far more than the other, the answer cannot be near the right one, either.

        Args:
            trace: what a hand-in answered.
            one: number of a mistake.
            other: number of another one.
        """
        worst = 0.0
        for column, keys in enumerate(self.items):
            rows, right = self.rows[[one, other], column], self.reference[column]
            if UNANSWERED in rows or right == UNANSWERED:
                continue
            for item in _answers(trace, keys):
                if right in rows:
                    row = rows[rows != right] if (rows != right).any() else rows[:1]
                    worst = max(worst, float(self._gaps(column, item, row)[0]))
                else:
                    (own,) = self._gaps(column, item, self.reference[column : column + 1])
                    less, more = sorted(self._gaps(column, item, rows))
                    worst = FAR if more > max(CLEARLY, MUCH * max(less, own)) else worst
        return worst

    def _gaps(self, column: int, item: Item, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the distance of an item from rows of its column, over the reference's length."""
        weight = float(self.weights[column])
        form = item.form if weight else bare_form(item.form)
        unlike = np.array([_unlike(self.forms[row], form) for row in rows])
        if not item.values.size or not weight or unlike.min(initial=FAR) >= FAR:
            return unlike  # of another form, so of any size: its numbers would change nothing
        vector = project(self.items[column][0], item.values, self.vectors.shape[1])
        gaps = np.linalg.norm(self.vectors[rows] - vector, axis=1)
        right = self.reference[column]
        scale = np.maximum(self.norms[rows], self.norms[right] if right >= 0 else 0.0)
        found: NDArray[np.float64] = weight * gaps / np.where(scale > 0, scale, 1.0)
        return np.asarray(np.maximum(np.minimum(found, FAR), unlike), np.float64)


def _answered(trace: Trace, keys: Sequence[str]) -> Item | None:
    return next(iter(_answers(trace, keys)), None)


def _answers(trace: Trace, keys: Sequence[str]) -> list[Item]:
    """Answers at places that all known mistakes answer alike: one of them, if they are alike."""
    found: list[Item] = []
    for item in (trace[key] for key in keys if key in trace):
        if not any(is_equal(item, other) for other in found):
            found.append(item)
    return found


def _asked(key: str) -> str:
    """Check and case of an item."""
    return "/".join(key.split("/", 2)[:2])


def _unlike(one: str, other: str) -> float:
    """Return how far two forms are apart."""
    if one == other:
        return 0.0
    kind, other_kind = one.split(DETAIL)[0], other.split(DETAIL)[0]
    if kind != other_kind:
        return FAR
    return COUNT if kind.endswith(NOT_FINITE) else KIND


def fingerprints(
    reference: Mapping[str, Short],
    traces: Sequence[tuple[tuple[str, ...], Mapping[str, Short]]],
    random: Container[str],
    free: Container[str] = (),
) -> Fingerprints | None:
    """The bank's part for one exercise; None if no mistake shows in it.

    Args:
        reference: what the right solution answers.
        traces: what mistakes answer.
        random: items that hang on random numbers, so that only their form tells anything.
        free: items that right code answers in several ways.
    """
    keys = {key for _, trace in traces for key in trace} | reference.keys()
    columns: dict[tuple[object, ...], tuple[list[str], list[int], Column]] = {}
    for key in sorted(keys):
        shorts = [trace.get(key) for trace in (reference, *(trace for _, trace in traces))]
        right, *others = map(without_numbers, shorts) if key in random else shorts
        column = Column.of(right)
        rows = [column.row(short) for short in others]
        if any(row != column.right for row in rows):
            columns.setdefault(column.contents(rows), ([], rows, column))[0].append(key)
    # Silence shows something where a check had begun; where it was skipped, since a need in
    # another exercise failed, the mistake is recognised there or nowhere.
    begun = [{_asked(key) for key in trace} for _, trace in traces]
    shows = [
        any(
            rows[n] != column.right
            and (rows[n] != UNANSWERED or not begun[n].isdisjoint(map(_asked, keys)))
            for keys, rows, column in columns.values()
        )
        for n in range(len(traces))
    ]
    if not any(shows):
        return None
    stacked: list[Short] = []
    table = np.full((sum(shows), len(columns)), UNANSWERED, np.int32)
    right_rows = np.full(len(columns), UNANSWERED, np.int32)
    for number, (_, rows, column) in enumerate(columns.values()):
        first = len(stacked)
        stacked += column.found
        kept = [row for row, visible in zip(rows, shows, strict=True) if visible]
        table[:, number] = [row + first if row >= 0 else UNANSWERED for row in kept]
        right_rows[number] = column.right + first if column.right >= 0 else UNANSWERED
    return Fingerprints(
        tuple(names for (names, _), visible in zip(traces, shows, strict=True) if visible),
        tuple(tuple(keys) for keys, _, _ in columns.values()),
        table,
        right_rows,
        _single([column.weight for _, _, column in columns.values()]),
        _single([short.vector for short in stacked]),
        _single([short.norm for short in stacked]),
        tuple(short.form for short in stacked),
        tuple(n for n, (keys, *_) in enumerate(columns.values()) if any(k in free for k in keys)),
    )


def _single(values: Sequence[Any]) -> NDArray[np.float32]:
    """As float32; what is beyond its range stays at its end."""
    found: NDArray[np.float32] = np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
    return found

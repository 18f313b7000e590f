"""Items as a bank keeps them: a projection, its length, and what tells equal ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autograder.diagnosis.items import NOT_FINITE, Item, Trace
from autograder.diagnosis.projection import WIDTH, project

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
        """What the right answer's dtype allows decides, not what came instead."""
        return self.found[0].weight if self.right >= 0 else min(s.weight for s in self.found)

    def contents(self, rows: Sequence[int]) -> tuple[object, ...]:
        """Equal for columns that hold the same: the same call stands in several checks."""
        return (tuple(rows), self.right, *(short.digest for short in self.found))

"""A grade book that an instructor downloaded: the rows of students, and the cells to be filled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from autograder.exports.people import Person
from autograder.exports.sheet import Row, Sheet

_NUMBER = re.compile(r"[+-]?\d{1,9}(?:[.,]\d{1,6})?")


@dataclass(frozen=True)
class Line:
    """A student's row. ``kept`` says why its cell must not be changed: a message's name, or ""."""

    person: Person
    row: Row
    kept: str = ""


@dataclass(frozen=True)
class Book:
    """A grade book.

    Attributes:
        platform: the course system, as :mod:`autograder.exports.told` calls it.
        place: the column to be filled, from 0.
        column: its title.
        maximum: what the system takes for all points.
    """

    platform: str
    sheet: Sheet
    place: int
    column: str
    maximum: Decimal
    lines: tuple[Line, ...]


def with_comma(sheet: Sheet) -> bool:
    """Whether numbers of this file are written with a decimal comma."""
    texts = {cell.value.strip() for row in sheet.rows for cell in row.cells}
    signs = {sign for text in texts if number(text) is not None for sign in ".," if sign in text}
    return signs == {","}


def number(text: str) -> Decimal | None:
    """A number as course systems write it, with a point or a comma before the decimals."""
    text = text.strip()
    return Decimal(text.replace(",", ".")) if _NUMBER.fullmatch(text) else None


def places(header: Sequence[str], *names: str) -> list[int]:
    """The columns whose title is one of these, but for case and space around it."""
    known = {name.casefold() for name in names}
    return [at for at, title in enumerate(header) if title.strip().casefold() in known]


def cells(row: Row, columns: Sequence[int]) -> tuple[str, ...]:
    """What the row says in these columns."""
    return tuple(row.value(at) for at in columns)

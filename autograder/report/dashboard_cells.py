"""The map of students and checks: one letter per cell, and every reason once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autograder.course.records import Lab, Outcome
from autograder.report.glance import Cell, Person
from autograder.report.redacted import covered, private
from autograder.report.view import GLYPHS, label, why

LETTERS = {
    Outcome.PASSED: "p",
    Outcome.FAILED: "f",
    Outcome.NOT_STARTED: "n",
    Outcome.SKIPPED: "s",
    Outcome.CRASHED: "c",
    Outcome.TIMED_OUT: "t",
    Outcome.NOT_GRADED: "g",
}
REASONS = 30_000  # bytes of all reasons: the page stays below 200 KB


@dataclass(frozen=True)
class CellView:
    """One cell: its letter, its sign, where its reason stands ("": it has none), who decided."""

    letter: str
    glyph: str
    reason: str
    decided: bool


@dataclass(frozen=True)
class Map:
    """The cells by row, and the reasons by place (a letter and a number).

    Of the rarest ``left_out`` reasons there was no room for.
    """

    rows: tuple[tuple[CellView, ...], ...]
    reasons: tuple[tuple[str, str], ...]
    left_out: int


def map_of(lab: Lab, people: list[Person], shown: list[int], language: str) -> Map:
    """Cells of the checks at the places ``shown``; the most frequent reasons are kept."""
    known = {*lab.files, *lab.forbidden, *(check.title.in_(language) for check in lab.checks)}
    rows = [[person.cells[place] for place in shown] for person in people]
    said = [[_reason(cell, known, language) for cell in row] for row in rows]
    often = Counter(reason for row in said for reason in row if reason[1])
    places: dict[tuple[str, str], str] = {}
    room = REASONS
    for reason, _ in often.most_common():
        room -= len(reason[1].encode()) + 20
        if room < 0:
            break
        places[reason] = f"{reason[0]}{len(places) + 1}"
    return Map(
        tuple(
            tuple(
                CellView(letter, GLYPHS[cell.result.outcome], place, cell.decided is not None)
                for cell, (letter, text) in zip(row, reasons, strict=True)
                for place in [places.get((letter, text), "")]
            )
            for row, reasons in zip(rows, said, strict=True)
        ),
        tuple((place, text) for (_, text), place in places.items()),
        len(often) - len(places),
    )


def _reason(cell: Cell, known: set[str], language: str) -> tuple[str, str]:
    """The cell's letter, and what is said of it."""
    texts = []
    if cell.decided is not None:
        values = {"by": covered(cell.decided.by), "reason": covered(cell.decided.reason)}
        texts.append(label("decided", language, **values))
    message = why(cell.result)
    if message is not None:
        texts.append(private(message, language, known))
    return LETTERS[cell.result.outcome], " ".join(texts)

"""Fills a grade book: the points of a class in one column, every other byte as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from autograder.course.records import ClassRecord, HandIn, Message
from autograder.course.score import final_of, late_penalty_of, score_of
from autograder.exports.book import Book, Line, number, with_comma
from autograder.exports.errors import ExportError
from autograder.exports.people import listed, matched
from autograder.exports.sheet import Cell

_DECIMALS = Decimal("0.01")  # what Canvas and Moodle keep


@dataclass(frozen=True)
class Filled:
    """The new file, and what is said about it.

    Attributes:
        data: the whole file.
        told: what was done, as sentences.
        open: what a person has to look at, as sentences; empty where everybody has their points.
    """

    data: bytes
    told: tuple[Message, ...]
    open: tuple[Message, ...]


def fill(
    book: Book, record: ClassRecord, *, scale: bool = False, trust_ids: bool = False
) -> Filled:
    """Put the points of the class into the book's column.

    Rows without a hand-in, hand-ins with points that are still to be decided, and cells that the
    course system has closed (excused, not assigned, locked) keep what they say.

    Args:
        scale: convert to the book's maximum where that is not the lab's.
        trust_ids: see :func:`autograder.exports.people.matched`.

    Raises:
        ExportError: the maximum is another one and ``scale`` was not asked for, or no hand-in fits
            any row (the book of another course), or a row ends before the cell to be filled.
    """
    total = record.lab.points
    if book.maximum != total and not scale:
        told_of = {"column": book.column, "maximum": f"{book.maximum:f}", "total": total}
        raise ExportError("other_maximum", book.sheet.path, **told_of)
    people = [line.person for line in book.lines]
    points: dict[str, _Points] = {}
    matching = matched(book.platform, people, _whose(record, points), trust_ids=trust_ids)
    if not matching.of:
        strangers = [str(m.values["who"]) for m in matching.remarks if m.key.endswith("other_name")]
        key = "nobody_but_ids" if strangers else "nobody"
        raise ExportError(key, book.sheet.path, column=book.column, who="".join(strangers))
    values: dict[Cell, str] = {}
    kept: dict[str, list[str]] = {}
    comma = with_comma(book.sheet)
    count = replaced = late = 0
    for place, hand_in in sorted(matching.of.items()):
        line = book.lines[place]
        before = number(line.row.value(book.place))
        theirs = points[hand_in.student]
        if why := _kept(theirs, line, book.place):
            kept.setdefault(why, []).append(_shown(line))
            continue
        text = _text(Decimal(theirs.final) * book.maximum / total, comma)
        count += 1
        late += theirs.late
        if number(text) != before:  # a cell that says so already may do it in its own way: 85.00
            values[book.sheet.cell(line.row, book.place)] = text
            replaced += before is not None
    without = [_shown(one) for place, one in enumerate(book.lines) if place not in matching.of]
    told = [_message("filled", count=count, rows=len(people), column=book.column)]
    told += [_message("replaced", count=replaced)] if replaced else []
    told += [_message("less_for_lateness", count=late)] if late else []
    told += [_message("without", count=len(without), who=listed(without))] if without else []
    unfinished = [_message(f"kept_{why}", who=listed(who)) for why, who in sorted(kept.items())]
    return Filled(book.sheet.changed(values), tuple(told), (*unfinished, *matching.remarks))


@dataclass(frozen=True)
class _Points:
    """What counts of a hand-in, whether lateness took something off, and whether it is open."""

    final: float
    late: bool
    undecided: bool


def _whose(record: ClassRecord, points: dict[str, _Points]) -> Iterator[HandIn]:
    """The hand-ins, one by one, without all that does not say whose they are.

    Their points go into ``points``: a class need not be in memory.
    """
    for hand_in in record.hand_ins:
        undecided = score_of(record.lab, hand_in).undecided > 0
        late = late_penalty_of(record.lab, hand_in) > 0
        points[hand_in.student] = _Points(final_of(record.lab, hand_in), late, undecided)
        yield HandIn(hand_in.student, (), origin=hand_in.origin)


def _kept(points: _Points, line: Line, place: int) -> str:
    """Why a row stays as it is, as a message's name; empty where it is to be filled."""
    if points.undecided:
        return "undecided"
    says = line.row.value(place)
    # Words are no grade that we know: a person has put them there, or the file is damaged.
    words = "words" if says.strip("-–") and number(says) is None else ""
    return line.kept or words


def _text(points: Decimal, comma: bool) -> str:
    """At most two decimals, and none that say nothing."""
    text = f"{points.quantize(_DECIMALS, ROUND_HALF_UP):f}".rstrip("0").rstrip(".")
    return text.replace(".", ",") if comma else text


def _shown(line: Line) -> str:
    return line.person.name or next(filter(None, line.person.ids), "–")


def _message(key: str, **values: object) -> Message:
    return Message(f"export.{key}", values)

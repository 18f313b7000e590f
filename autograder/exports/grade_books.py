"""Fills a grade book: the points of a class in one column, every other byte as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from autograder.course.records import ClassRecord, HandIn, Lab, Message
from autograder.course.score import final_of, late_penalty_of, score_of
from autograder.exports.people import Person, listed, matched
from autograder.exports.sheet import (
    Book,
    Cell,
    ExportError,
    Line,
    Row,
    Sheet,
    cells,
    number,
    places,
    with_comma,
)
from autograder.intake.roster import is_test_student

_DECIMALS = Decimal("0.01")  # what Canvas and Moodle keep


@dataclass(frozen=True)
class FilledBook:
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
) -> FilledBook:
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
    return FilledBook(book.sheet.changed(values), tuple(told), (*unfinished, *matching.remarks))


@dataclass(frozen=True)
class _Points:
    """Points of a hand-in that count, whether lateness took some off, and whether it is open."""

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


# The grade book of Canvas, as its *Export* writes it.
#
# Read in canvas-lms: ``lib/gradebook_exporter.rb`` (the columns ``Student`` or ``LastName``,
# ``FirstName``, then ``ID``, ``SIS User ID``, ``SIS Login ID``, …, ``Section``, custom columns,
# ``Title (id)`` per assignment, totals; a row ``Manual Posting`` at times, then ``Points
# Possible``) and ``lib/gradebook_importer.rb`` (who is found by ``ID``, ``SIS User ID``, ``SIS
# Login ID``, the name; ``EX`` excuses, ``(read only)`` columns are ignored, ``,`` or ``;``).
# ``N/A`` stands where an assignment is not for that student.

CANVAS = "canvas"
_ASSIGNMENT = re.compile(r"(?P<title>.*\S)\s+\((?P<id>\d+)\)\s*", re.DOTALL)
_POSTING = re.compile(r"\s*(?:Muted|Manual Posting.*)?\s*", re.IGNORECASE)
_KEPT = {"ex": "excused", "n/a": "not_assigned"}


def canvas_book(sheet: Sheet, lab: Lab, column: str | None = None) -> Book:
    """The grade book, and which of its columns is the lab's.

    Args:
        column: the assignment's title, with or without its id; without it the only assignment, or
            the only one that names the lab.

    Raises:
        ExportError: no grade book of Canvas, no such column or several, or one that says for how
            many points it is not.
    """
    header = [title.strip() for title in sheet.rows[0].values]
    at_id, at_section = places(header, "ID"), places(header, "Section")
    named = header[0] == "Student" or header[:2] == ["LastName", "FirstName"]
    if not (named and at_id and at_section):
        raise ExportError("not_canvas", sheet.path, found=", ".join(header[:6]))
    points = next((row for row in sheet.rows[1:] if _is_points(row)), None)
    if points is None:
        raise ExportError("no_points_row", sheet.path)
    place = _column(sheet, points, at_section[0], lab, column)
    maximum = number(points.value(place))
    if maximum is None or maximum <= 0:
        raise ExportError("no_maximum", sheet.path, column=header[place])
    ids = at_id + places(header, "SIS User ID", "SIS Login ID", "Integration ID")
    lines = [
        _line(row, at_id[0], ids, place)
        for row in sheet.rows[1:]
        if not _is_points(row) and not all(_POSTING.fullmatch(value) for value in row.values)
    ]
    lines = [line for line in lines if not is_test_student(line.person.name)]
    return Book(CANVAS, sheet, place, header[place], maximum, tuple(lines))


def _is_points(row: Row) -> bool:
    return "Points Possible" in row.cells[0].value


def _line(row: Row, at_id: int, ids: list[int], place: int) -> Line:
    """A student's row; the name is in front of the number, in one column or in two."""
    person = Person(cells(row, ids), ", ".join(cells(row, range(at_id))))
    return Line(person, row, _KEPT.get(row.value(place).casefold(), ""))


def _column(sheet: Sheet, points: Row, section: int, lab: Lab, asked: str | None) -> int:
    header = sheet.rows[0].values
    # A title of one's own may end in a number, too, but no total and no note has points.
    assignments = {
        at: match
        for at, title in enumerate(header)
        if at > section and (match := _ASSIGNMENT.fullmatch(title))
    }
    there = "; ".join(header[at] for at in assignments) or "–"
    if asked is None:
        return _of_lab(sheet, {at: one["title"] for at, one in assignments.items()}, lab, there)
    wanted = asked.strip().casefold()
    found = [
        at
        for at, one in assignments.items()
        if wanted in (header[at].strip().casefold(), one["title"].casefold(), one["id"])
    ]
    if len(found) != 1:
        key = "columns_alike" if found else "no_column"
        raise ExportError(key, sheet.path, column=asked, there=there)
    if number(points.value(found[0])) is None and points.value(found[0]):
        raise ExportError("read_only", sheet.path, column=header[found[0]], there=there)
    return found[0]


def _of_lab(sheet: Sheet, titles: dict[int, str], lab: Lab, there: str) -> int:
    """The only assignment that names the lab; the only one of all, unless it names another lab."""
    wanted = re.search(r"\d+", lab.name)
    named = {at: re.findall(r"(?:lab|实验|實驗)\W*0*(\d+)", t, re.I) for at, t in titles.items()}
    found = [at for at, numbers in named.items() if wanted and wanted[0] in numbers]
    if not found:
        found = [at for at in titles if not named[at]] if len(titles) == 1 else []
    if len(found) != 1:
        raise ExportError("which_column", sheet.path, lab=lab.name, there=there)
    return found[0]


# The offline grading worksheet of a Moodle assignment.
#
# Read in moodle: ``mod/assign/gradingtable.php`` (the columns, in this order: ``Identifier``, that
# is "Participant" and a number, ``Full name``, identity fields, ``Status``, …, ``Grade``,
# ``Maximum Grade`` or ``Scale``, …, ``Grade can be changed``, …, ``Last modified (grade)``, …) and
# ``mod/assign/feedback/offline`` (the importer finds columns by the titles of the site's language,
# skips grades that are locked, empty or beyond the maximum). The titles in Chinese are those of its
# language packs. A worksheet of any other language is understood by what its columns hold.

MOODLE = "moodle"
_IDENTIFIER = ("Identifier", "标识符", "識別碼")
_NAME = ("Full name", "姓名", "全名")
_IDS = ("ID number", "Username", "学号", "學號", "编号", "ID号", "用户名", "帳號")
_GRADE = ("Grade", "成绩", "成績", "分数", "分數")
_MAXIMUM = ("Maximum Grade", "最高分", "最高成绩", "最高成績")
_SCALE = ("Scale", "量表", "量尺")
_CHANGEABLE = ("Grade can be changed", "允许更改成绩", "分數可以被更改")
_NO = ("no", "否")
_PARTICIPANT = re.compile(r"(?P<word>\D*[^\W\d_]\s*)(?P<number>\d+)")
_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")


def moodle_book(sheet: Sheet, column: str | None = None) -> Book:
    """The worksheet.

    Args:
        column: the title of the column of grades; without it the one that Moodle calls so.

    Raises:
        ExportError: no worksheet of Moodle, no such column, no or several maximum grades, or a
            scale of words in place of points.
    """
    header, rows = sheet.rows[0].values, sheet.rows[1:]
    at_id = _identifier(header, rows)
    if at_id is None:
        raise ExportError("not_moodle", sheet.path, found=", ".join(header[:6]))
    if places(header, *_SCALE) and not places(header, *_MAXIMUM):
        raise ExportError("scale_of_words", sheet.path)
    at_grade, at_maximum = _grade(sheet, column)
    marks = {number(row.value(at_maximum)) for row in rows}
    maximum = marks.pop()
    if marks or maximum is None or maximum <= 0:
        raise ExportError("no_maximum", sheet.path, column=header[at_grade])
    names = places(header, *_NAME)[:1]
    if not places(header, *_IDENTIFIER):  # a language that we do not know
        names = names or [at_id + 1]
    columns = _Columns(
        [at_id, *places(header, *_IDS)],
        names,
        places(header, *_CHANGEABLE),
    )
    lines = tuple(columns.line(row) for row in rows)
    return Book(MOODLE, sheet, at_grade, header[at_grade], maximum, lines)


class _Columns:
    """The columns that tell about a student."""

    def __init__(self, ids: Sequence[int], name: Sequence[int], changeable: Sequence[int]) -> None:
        self._ids = ids
        self._name = name
        self._changeable = changeable

    def line(self, row: Row) -> Line:
        """A student's row; where names are hidden another column stands in their place."""
        identifier, *others = cells(row, self._ids)
        match = _PARTICIPANT.fullmatch(identifier)
        emails = tuple(value for value in row.values if _ADDRESS.fullmatch(value.strip()))
        person = Person(
            (match["number"] if match else identifier, *others),
            " ".join(cells(row, self._name)),
            emails,
        )
        locked = any(value.casefold() in _NO for value in cells(row, self._changeable))
        return Line(person, row, "locked" if locked else "")


def _identifier(header: Sequence[str], rows: Sequence[Row]) -> int | None:
    """The column of "Participant 17": by its title, else the first that holds nothing else."""
    known = places(header, *_IDENTIFIER)
    for at in known or range(len(header)):
        matches = [_PARTICIPANT.fullmatch(row.value(at)) for row in rows]
        found = [match for match in matches if match is not None]
        words = {match["word"] for match in found}
        if found and len(found) == len(rows) and len(words) == 1:
            return at
    return None


def _grade(sheet: Sheet, column: str | None) -> tuple[int, int]:
    """The columns of grades and of the maximum, which stands right behind."""
    header, rows = sheet.rows[0].values, sheet.rows[1:]
    there = "; ".join(header)
    found = places(header, column) if column is not None else places(header, *_GRADE)
    if column is None and not found:
        found = [at for at in range(len(header) - 1) if _looks_like_grades(rows, at)]
    if len(found) != 1:
        key = "columns_alike" if found else "no_column"
        raise ExportError(key, sheet.path, column=column or _GRADE[0], there=there)
    behind = places(header, *_MAXIMUM) or [found[0] + 1]
    if len(behind) != 1 or behind[0] >= len(header):
        raise ExportError("no_maximum", sheet.path, column=header[found[0]])
    return found[0], behind[0]


def _looks_like_grades(rows: Sequence[Row], at: int) -> bool:
    """Nothing or numbers, and behind them one and the same number that none is above."""
    maximum = {number(row.value(at + 1)) for row in rows}
    highest = maximum.pop()
    if maximum or highest is None or highest <= 0:
        return False
    told = [row.value(at) for row in rows if row.value(at)]
    grades = [number(text) for text in told]
    return all(grade is not None and 0 <= grade <= highest for grade in grades)

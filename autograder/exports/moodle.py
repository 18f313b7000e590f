"""The offline grading worksheet of a Moodle assignment.

Read in moodle: ``mod/assign/gradingtable.php`` (the columns, in this order: ``Identifier``, that
is "Participant" and a number, ``Full name``, identity fields, ``Status``, …, ``Grade``,
``Maximum Grade`` or ``Scale``, …, ``Grade can be changed``, …, ``Last modified (grade)``, …) and
``mod/assign/feedback/offline`` (the importer finds columns by the titles of the site's language,
skips grades that are locked, empty or beyond the maximum). The titles in Chinese are those of its
language packs. A worksheet of any other language is understood by what its columns hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autograder.exports.book import Book, Line, cells, number, places
from autograder.exports.errors import ExportError
from autograder.exports.people import Person
from autograder.exports.sheet import Row, Sheet

PLATFORM = "moodle"
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


def book(sheet: Sheet, column: str | None = None) -> Book:
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
    return Book(PLATFORM, sheet, at_grade, header[at_grade], maximum, lines)


class _Columns:
    """Which columns hold what of a student."""

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

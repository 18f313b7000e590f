"""The grade book of Canvas, as its *Export* writes it.

Read in canvas-lms: ``lib/gradebook_exporter.rb`` (the columns ``Student`` or ``LastName``,
``FirstName``, then ``ID``, ``SIS User ID``, ``SIS Login ID``, …, ``Section``, custom columns,
``Title (id)`` per assignment, totals; a row ``Manual Posting`` at times, then ``Points Possible``)
and ``lib/gradebook_importer.rb`` (who is found by ``ID``, ``SIS User ID``, ``SIS Login ID``, the
name; ``EX`` excuses, ``(read only)`` columns are ignored, ``,`` or ``;``). ``N/A`` stands where an
assignment is not for that student.
"""

from __future__ import annotations

import re

from autograder.course.records import Lab
from autograder.exports.book import Book, Line, cells, number, places
from autograder.exports.errors import ExportError
from autograder.exports.people import Person
from autograder.exports.sheet import Row, Sheet
from autograder.intake.roster_csv import is_test_student

PLATFORM = "canvas"
_ASSIGNMENT = re.compile(r"(?P<title>.*\S)\s+\((?P<id>\d+)\)\s*", re.DOTALL)
_POSTING = re.compile(r"\s*(?:Muted|Manual Posting.*)?\s*", re.IGNORECASE)
_KEPT = {"ex": "excused", "n/a": "not_assigned"}


def book(sheet: Sheet, lab: Lab, column: str | None = None) -> Book:
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
    return Book(PLATFORM, sheet, place, header[place], maximum, tuple(lines))


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

"""A CSV whose cells can be changed while every other byte stays as it was.

Quoting follows Python's ``csv`` (RFC 4180, and lenient as that is): what a spreadsheet or a course
system wrote is not written anew, its text is cut where a cell stands.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from autograder.course.messages import both
from autograder.course.records import Message
from autograder.exports.people import Person
from autograder.report import escape

# What ends an export, as a sentence in the reader's language.


class ExportError(ValueError):
    """A file that cannot be used; ``reason`` names it, what was expected, and how to mend it."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        harmless = {name: _harmless(value) for name, value in values.items()}
        self.reason = Message(f"export.{key}", {"path": str(path), **harmless})
        super().__init__(both(self.reason))


def _harmless(value: object) -> object:
    """A wrong file may hold anything, a terminal's control sequences, too."""
    return escape.line(value) if isinstance(value, str) else value


MAX_BYTES = 16 << 20
DELIMITERS = ",;\t"

_BOM = "\ufeff"
_EXCEL = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx and .xls


@dataclass(frozen=True)
class Cell:
    """A cell: what it says, and where its text stands in the sheet."""

    value: str
    start: int
    end: int
    quoted: bool


@dataclass(frozen=True)
class Row:
    """A row that is not blank, and the line (from 1) on which it begins."""

    line: int
    cells: tuple[Cell, ...]

    @property
    def values(self) -> list[str]:
        """Return what the cells say."""
        return [cell.value for cell in self.cells]

    def value(self, at: int) -> str:
        """Return what a cell says; spreadsheets leave out the empty ones at the end of a row."""
        return self.cells[at].value.strip() if at < len(self.cells) else ""


@dataclass(frozen=True)
class Sheet:
    """A CSV as it was read. ``text`` begins with the byte order mark if there is one."""

    path: Path
    text: str
    encoding: str
    delimiter: str
    rows: tuple[Row, ...]

    def changed(self, values: Mapping[Cell, str]) -> bytes:
        """The file with these cells saying something else, quoted as they were."""
        pieces, done = [], 0
        for cell in sorted(values, key=lambda cell: cell.start):
            new = values[cell]
            if cell.quoted or any(sign in new for sign in (self.delimiter, '"', "\r", "\n")):
                new = '"' + new.replace('"', '""') + '"'
            pieces += [self.text[done : cell.start], new]
            done = cell.end
        return "".join([*pieces, self.text[done:]]).encode(self.encoding)

    def cell(self, row: Row, at: int) -> Cell:
        """The cell of a row that is to be filled.

        Raises:
            ExportError: the row ends before it.
        """
        if at >= len(row.cells):
            values = {"line": row.line, "found": len(row.cells), "expected": at + 1}
            raise ExportError("ragged", self.path, **values)
        return row.cells[at]


def read(path: Path) -> Sheet:
    """Read a CSV: UTF-8 or UTF-16 with or without a mark, or GBK; commas, semicolons or tabs.

    The first row is the header: the delimiter is what makes most cells of it.

    Raises:
        ExportError: there is no such file, it is no text that could be written back as it was, it
            holds nothing, or a quote is not closed.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ExportError("unreadable", path, text=error.strerror) from None
    if data.startswith(_EXCEL):
        raise ExportError("excel", path)
    text, encoding = _decoded(path, data)
    if not text.strip(_BOM + DELIMITERS + '" \r\n'):
        raise ExportError("empty", path)
    firsts = {sign: next(_scanned(path, text, sign), None) for sign in DELIMITERS}
    widths = {sign: len(row.cells) for sign, row in firsts.items() if row is not None}
    if not widths:  # cells, and nothing in them
        raise ExportError("empty", path)
    delimiter = max(widths, key=widths.__getitem__)  # the first of equal ones
    return Sheet(path, text, encoding, delimiter, tuple(_scanned(path, text, delimiter)))


def _decoded(path: Path, data: bytes) -> tuple[str, str]:
    """The text and its encoding; only one that gives the same bytes back."""
    encodings = ["utf-8", "gb18030"]
    if data.startswith(codecs.BOM_UTF16_LE):
        encodings = ["utf-16-le"]
    elif data.startswith(codecs.BOM_UTF16_BE):
        encodings = ["utf-16-be"]
    for encoding in encodings if len(data) <= MAX_BYTES else ():
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text and text.encode(encoding) == data:
            return text, encoding
    raise ExportError("not_text", path)


def _scanned(path: Path, text: str, delimiter: str) -> Iterator[Row]:
    """The rows that are not blank.

    Raises:
        ExportError: a quote is not closed.
    """
    sign = re.escape(delimiter)
    cell = re.compile(
        rf'(?:"(?P<inner>[^"]*(?:""[^"]*)*)"(?P<rest>[^{sign}\r\n]*)'
        rf'|(?P<bare>(?:[^{sign}\r\n"][^{sign}\r\n]*)?))(?P<end>{sign}|\r\n|\n|\r|\Z)'
    )
    cells: list[Cell] = []
    at = len(_BOM) if text.startswith(_BOM) else 0
    line = begun = 1
    while at < len(text) or cells:
        match = cell.match(text, at)
        if match is None:
            raise ExportError("broken", path, line=line)
        quoted = match["bare"] is None
        value = match["inner"].replace('""', '"') + match["rest"] if quoted else match["bare"]
        cells.append(Cell(value, at, match.start("end"), quoted))
        line += len(re.findall(r"\r\n|\n|\r", match[0]))
        at = match.end()
        if match["end"] != delimiter:
            if any(one.value.strip() for one in cells):
                yield Row(begun, tuple(cells))
            cells, begun = [], line


# A grade book that an instructor downloaded: the rows of students, and the cells to be filled.

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
        platform: the course system, as :mod:`autograder.exports.people` calls it.
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
    """Return whether numbers of this file are written with a decimal comma."""
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
    """Return what the row says in these columns."""
    return tuple(row.value(at) for at in columns)

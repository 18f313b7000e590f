"""A CSV is understood as Python's ``csv`` does, and comes back byte for byte."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.cli.main import main
from autograder.exports.sheet import ExportError, read
from tests.archives import placed
from tests.exports.test_books import CANVAS_BOOK, MOODLE_BOOK, canvas_class


@pytest.mark.parametrize(
    "text",
    [
        CANVAS_BOOK,
        MOODLE_BOOK,
        'a,b\n"x"y,"",\n',
        '\n\na,b\r"1\r2",3',
        'a;b\n"1;""2""";\n',
        "a\tb\n1\t2\n\n\n",
        '"a\nb",c\n"d",e',
    ],
)
def test_cells_are_those_of_python_csv(tmp_path: Path, text: str) -> None:
    sheet = read(placed(tmp_path / "t.csv", text.encode()))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=sheet.delimiter)
    assert [row.values for row in sheet.rows] == [r for r in rows if any(c.strip() for c in r)]
    for row in sheet.rows:
        for cell in row.cells:
            raw = text[cell.start : cell.end]
            assert next(
                csv.reader(io.StringIO(raw, newline=""), delimiter=sheet.delimiter), [""]
            ) == [cell.value]
    assert sheet.changed({}) == text.encode()


def test_what_would_not_come_back_is_refused(tmp_path: Path) -> None:
    for data in (b"a,b\n\x80\n", "a,\u6f22\n".encode("utf-16-le"), b"a\x00b,c\n"):
        with pytest.raises(ExportError):
            read(placed(tmp_path / "t.csv", data))


_CELLS = st.text(alphabet='a1"\n;,\t =é李', max_size=5)


@given(
    rows=st.lists(st.lists(_CELLS, min_size=3, max_size=3), min_size=1, max_size=4),
    delimiter=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_one_changed_cell_changes_one_cell(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    delimiter: str,
    quoting: int,
    end: str,
) -> None:
    text = io.StringIO(newline="")
    header = ["first", "second", "third"]
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(  # type: ignore[arg-type]
        [header, *rows]
    )
    path = tmp_path_factory.mktemp("sheet") / "t.csv"
    sheet = read(placed(path, text.getvalue().encode()))
    kept = [row for row in [header, *rows] if any(cell.strip() for cell in row)]
    assert [row.values for row in sheet.rows] == kept and sheet.delimiter == delimiter
    target = sheet.rows[-1].cells[1]
    new = sheet.changed({target: "8,5"}).decode()
    assert new.startswith(text.getvalue()[: target.start])
    assert new.endswith(text.getvalue()[target.end :])
    again = list(csv.reader(io.StringIO(new, newline=""), delimiter=delimiter))
    last = [row for row in again if any(cell.strip() for cell in row)][-1]
    assert last == [kept[-1][0], "8,5", kept[-1][2]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graded class that the grade books below are of."""
    return canvas_class(tmp_path_factory.mktemp("damaged"))


@given(
    system=st.sampled_from(["canvas", "moodle"]),
    at=st.floats(0, 1),
    removed=st.integers(0, 30),
    added=st.binary(max_size=6) | st.sampled_from([b'"', b",", b";", b"\n", b"\xff\xfe", b"\x00"]),
)
def test_a_damaged_book_is_filled_right_or_not_at_all(
    out: Path, system: str, at: float, removed: int, added: bytes
) -> None:
    whole = (CANVAS_BOOK if system == "canvas" else MOODLE_BOOK).encode()
    place = int(at * len(whole))
    data = whole[:place] + added + whole[place + removed :]
    book = placed(out.parent / "book.csv", data)
    to = out.parent / "filled.csv"
    to.unlink(missing_ok=True)
    status = main(["export", system, str(out), str(book), "--to", str(to), "--lang", "en"])
    assert status in (0, 1, 2) and to.exists() == (status != 2)
    if status != 2:
        before, after = read(book), read(to)
        assert (before.encoding, before.delimiter) == (after.encoding, after.delimiter)
        changes = [
            column
            for old, new in zip(before.rows, after.rows, strict=True)
            for column, cells in enumerate(zip(old.values, new.values, strict=True))
            if cells[0] != cells[1]
        ]
        assert len(set(changes)) <= 1 and len(data) - len(to.read_bytes()) < 40

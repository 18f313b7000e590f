"""Grade books are filled, and nothing else of them changes: byte for byte."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course.records import Student
from autograder.intake.people import Enrolment
from tests.archives import GOOD, placed, under, zipped
from tests.exports.graded import graded

# Names as canvas-lms lib/content_zipper.rb makes them; `=` and the like are in the book only.
CANVAS = {
    "liwei_1001_501_attention.py": GOOD["attention.py"],
    "liwei_1001_502_mlp.py": GOOD["mlp.py"],
    "王芳_LATE_1002_503_lab2.zip": zipped(under("lab2")),
    "王芳_1003_504_lab2.zip": zipped(GOOD),
    "ngzoë_1004_505_lab2.zip": zipped(GOOD),
    "suma1b_1005_506_lab2.zip": zipped(GOOD),
    "excusedex_1006_507_lab2.zip": zipped(GOOD),
    "elsewhereel_1007_508_lab2.zip": zipped(GOOD),
    "stranger_9999_509_lab2.zip": zipped(GOOD),
}
CANVAS_POINTS = {"liwei_1001": 85, "王芳_1002": 60, "王芳_1003": 100, "ngzo": None, "suma1b": 0}
CANVAS_BOOK = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Notes,Lab 1 (54),Lab 2: Qwen3 (55),"
    "Current Score\r\n"
    ",,,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,(read only),50.00,100.00,(read only)\r\n"
    '"Li, Wei",1001,2021001,liwei@example.edu,A,"a ""quoted"" note",10.00,,91.0\r\n'
    '"王, 芳",1002,2021002,wang2@example.edu,A,,,60.00,\r\n'
    '"王, 芳",1003,2021003,wang3@example.edu,B,,,"12.5",\r\n'
    '"Ng, Zoë",1004,2021004,zoe@example.edu,A,,,77.00,\r\n'
    '"=""=SUM(A1),B""",1005,2021005,sum@example.edu,A,+1,,,-@cell\r\n'
    '"Excused, Ex",1006,,,A,,,EX,\r\n'
    '"Elsewhere, El",1007,,,A,,,N/A,\r\n'
    '"韩, 梅梅",1008,2021008,han@example.edu,A,"two\r\nlines",9.00,33.00,\r\n'
    '"Student, Test",1999,,,A,,,,\r\n'
)
CANVAS_FILLED = {
    '10.00,,91.0': '10.00,85,91.0',
    '"12.5"': '"100"',
    'sum@example.edu,A,+1,,,': 'sum@example.edu,A,+1,,0,',
}  # fmt: skip

MOODLE = {
    **under("李 雷_21_assignsubmission_file"),
    **under("Han Meimei_22_assignsubmission_file"),
    **under("王伟_23_assignsubmission_file"),
    **under("王伟_24_assignsubmission_file"),
    **under("Locked One_25_assignsubmission_file"),
}
MOODLE_POINTS = {"李_雷": 85, "Han": 60, "王伟_23": None, "王伟_24": 0}
MOODLE_BOOK = (
    'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade",'
    '"Grade can be changed","Last modified (submission)","Last modified (grade)",'
    '"Feedback comments"\n'
    '"Participant 21","李 雷",li@example.org,"Submitted for grading",,100.00,Yes,'
    '"Monday, 2 November 2026, 9:00 AM",-,\n'
    '"Participant 22","Han Meimei",han@example.org,Submitted,50.00,100.00,Yes,x,-,"<p>old</p>"\n'
    '"Participant 23",王伟,w3@example.org,Submitted,12.00,100.00,Yes,x,-,\n'
    '"Participant 24",王伟,w4@example.org,Submitted,"",100.00,Yes,x,-,\n'
    '"Participant 25","Locked One",l@example.org,Submitted,5.00,100.00,No,x,-,\n'
    '"Participant 26",@SUM(1),m@example.org,"No submission",,100.00,Yes,-,-,'
)
MOODLE_FILLED = {
    'grading",,100.00': 'grading",85,100.00',
    "50.00": "60",
    'w4@example.org,Submitted,"",': 'w4@example.org,Submitted,"0",',
}
CHINESE_TITLES = {
    "Identifier": "标识符",
    '"Full name"': "姓名",
    '"Email address"': "Email地址",
    ",Status,": ",状态,",
    ",Grade,": ",成绩,",
    '"Maximum Grade"': "最高分",
    '"Grade can be changed"': "允许更改成绩",
    '"Last modified (submission)"': "上次修改（作业）",
    '"Last modified (grade)"': "上次修改（评分）",
    '"Feedback comments"': "反馈评论",
    "Participant ": "参与人",
    "Yes": "是",
    "No,": "否,",
}
UNKNOWN_TITLES = {
    "Identifier": "Kennung",
    '"Full name"': "Name",
    ",Grade,": ",Bewertung,",
    '"Maximum Grade"': "Bestwertung",
    '"Grade can be changed"': "Änderbar",
    "Participant ": "Teilnehmer/in",
}


def exchanged(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def canvas_class(folder: Path) -> Path:
    source = placed(folder / "canvas.zip", zipped(CANVAS))
    graded(source, folder / "out", CANVAS_POINTS)
    return folder / "out"


def moodle_class(folder: Path) -> Path:
    source = placed(folder / "moodle.zip", zipped(MOODLE))
    graded(source, folder / "out", MOODLE_POINTS)
    return folder / "out"


def export(*arguments: object, language: str = "en") -> int:
    return main(["export", *map(str, arguments), "--lang", language])


# ---------------------------------------------------------------- filled, and nothing else


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_canvas_book_is_filled(
    tmp_path: Path, encoding: str, delimiter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, text, wanted = canvas_class(tmp_path), CANVAS_BOOK, exchanged(CANVAS_BOOK, CANVAS_FILLED)
    if delimiter != ",":  # what stood between quotes for its comma may lose them
        text, wanted = (delimited(one, delimiter) for one in (text, wanted))
    book = placed(tmp_path / "Grades.csv", text.encode(encoding))
    assert export("canvas", out, book) == 1
    assert (tmp_path / "Grades-filled.csv").read_bytes() == wanted.encode(encoding)
    assert book.read_bytes() == text.encode(encoding)
    said = capsys.readouterr()
    assert "4 of 8 rows are filled in column “Lab 2: Qwen3 (55)”" in said.out
    assert "1 of these held another grade" in said.out
    assert "stays as it was: 韩, 梅梅\n" in said.out
    left = said.err.splitlines()
    assert [line.rpartition(": ")[2] for line in left] == [
        "Excused, Ex", "Elsewhere, El", "Ng, Zoë", "stranger_9999",
    ]  # fmt: skip


def delimited(text: str, delimiter: str) -> str:
    """The same table with another delimiter; cells are quoted where they were."""
    pieces, quoted = [], False
    for sign in text:
        quoted ^= sign == '"'
        pieces.append(delimiter if sign == "," and not quoted else sign)
    return "".join(pieces)


@pytest.mark.parametrize(
    "titles", [{}, CHINESE_TITLES, UNKNOWN_TITLES], ids=["English", "Chinese", "unknown"]
)
def test_a_moodle_worksheet_is_filled(
    tmp_path: Path, titles: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = moodle_class(tmp_path)
    text = exchanged(MOODLE_BOOK, titles)
    changes = dict(MOODLE_FILLED)
    closed = titles is not UNKNOWN_TITLES  # a title that we do not know locks nothing
    book = placed(tmp_path / "sheet.csv", text.encode())
    if not closed:
        book.write_text(text := text.replace("5.00,100.00,No", "100.00,100.00,No"))
    assert export("moodle", out, book, "--to", tmp_path / "new.csv") == 1
    assert (tmp_path / "new.csv").read_bytes() == exchanged(text, changes).encode()
    said = capsys.readouterr()
    assert f"{3 if closed else 4} of 6 rows are filled" in said.out
    assert "1 row without a hand-in" in said.out and "@SUM(1)" in said.out
    assert ("Locked" in said.err) == closed and "王伟" in said.err


def test_the_file_itself_changes_only_where_to_names_it(tmp_path: Path) -> None:
    out = canvas_class(tmp_path)
    book = placed(tmp_path / "Grades.csv", CANVAS_BOOK.encode())
    assert export("canvas", out, book, "--to", book) == 1
    assert book.read_bytes() == exchanged(CANVAS_BOOK, CANVAS_FILLED).encode()
    assert export("canvas", out, book, "--to", book) == 1  # filled again: nothing to change
    assert book.read_bytes() == exchanged(CANVAS_BOOK, CANVAS_FILLED).encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Grades.csv", "canvas.zip", "out"]


def test_all_filled_is_status_0_and_chinese_is_spoken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = placed(tmp_path / "c.zip", zipped({"李雷_7_8_lab2.zip": zipped(GOOD)}))
    graded(source, tmp_path / "out", {})
    text = "LastName,FirstName,ID,SIS Login ID,Section,Homework (3)\nPoints Possible,,,,,100\n"
    book = placed(tmp_path / "g.csv", (text + "李,雷,7,a@b,S,\n").encode())
    assert export("canvas", tmp_path / "out", book, language="zh") == 0
    assert (tmp_path / "g-filled.csv").read_text() == text + "李,雷,7,a@b,S,100\n"
    said = capsys.readouterr()
    assert "已填写 1 行（共 1 行）" in said.out and said.err == ""


@pytest.mark.parametrize(
    ("cell", "filled"), [("-", "100"), (" ", "100"), ("see me", None), ('"a\n\nb"', None)]
)
def test_words_in_place_of_a_grade_stay(tmp_path: Path, cell: str, filled: str | None) -> None:
    source = placed(tmp_path / "c.zip", zipped({"li_7_8_lab2.zip": zipped(GOOD)}))
    graded(source, tmp_path / "out", {})
    text = "Student,ID,Section,Lab 2 (3)\nPoints Possible,,,100\nLi,7,S,"
    book = placed(tmp_path / "g.csv", (text + cell).encode())
    assert export("canvas", tmp_path / "out", book) == (0 if filled else 1)
    assert (tmp_path / "g-filled.csv").read_text() == text + (filled or cell)


# ---------------------------------------------------------------- points


@pytest.mark.parametrize(
    ("maximum", "cell"), [("20.00", "17"), ("7", "5.95"), ("7,00", '"5,95"'), ("1.5", "1.28")]
)
def test_another_maximum_is_asked_about(
    tmp_path: Path, maximum: str, cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = placed(tmp_path / "c.zip", zipped({"li_7_8_lab2.zip": zipped(GOOD)}))
    graded(source, tmp_path / "out", {"li": 85})
    limit = f'"{maximum}"' if "," in maximum else maximum
    text = f"Student,ID,Section,Lab 2 (3)\n    Points Possible,,,{limit}\n"
    book = placed(tmp_path / "g.csv", (text + "Li,7,S,\n").encode())
    assert export("canvas", tmp_path / "out", book) == 2
    assert not (tmp_path / "g-filled.csv").exists()
    assert "--scale" in capsys.readouterr().err
    assert export("canvas", tmp_path / "out", book, "--scale") == 0
    assert (tmp_path / "g-filled.csv").read_text() == text + f"Li,7,S,{cell}\n"


def test_lateness_is_taken_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"li_7_8_lab2.zip": zipped(GOOD), "bo_8_9_lab2.zip": zipped(GOOD)}
    source = placed(tmp_path / "c.zip", zipped(files))
    graded(source, tmp_path / "out", {"li": 85}, late={"li": 10})
    text = "Student,ID,Section,Lab 2 (3)\n    Points Possible,,,100\nLi,7,S,{}\nBo,8,S,{}\n"
    book = placed(tmp_path / "g.csv", text.format("", "").encode())
    assert export("canvas", tmp_path / "out", book) == 0
    assert (tmp_path / "g-filled.csv").read_text() == text.format(77, 100)
    assert "1 of these was late" in capsys.readouterr().out


# ---------------------------------------------------------------- whose row


def one_class(folder: Path, name: str, enrolment: Enrolment | None = None) -> Path:
    source = placed(folder / "c.zip", zipped(under(name) | under("other_name_entirely")))
    graded(source, folder / "out", {}, enrolment)
    return folder / "out"


HEADER = "Student,ID,SIS User ID,SIS Login ID,Section,Lab 2 (3)\nPoints Possible,,,,,100\n"


@pytest.mark.parametrize(
    ("folder", "rows", "filled"),
    [
        ("2021001_李雷", '"李, 雷",1,2021001,a,S,\n', True),
        ("2021001_李雷", '"Li, Lei",1,2021001,a,S,\n', True),  # names that cannot be compared
        ("2021001_李雷", '"韩, 梅梅",1,2021001,a,S,\n', False),
        ("77_李雷", '"韩, 梅梅",77,2021002,a,S,\n"李, 雷",1,2021001,a,S,\n', True),  # by the name
        ("2021001_李雷", '"李, 雷",1,,a,S,\n"李, 雷",2,,b,S,\n', False),  # which of them?
        ("2021001_李雷", '"李, 雷",1,2021001,a,S,\n"李, 雷",2,2021001,b,S,\n', False),
        ("lei@example.edu", '"李, 雷",1,,lei@example.edu,S,\n', True),
        ("LEI", '"李, 雷",1,,lei,S,\n', True),
        ("李雷", '"李, 雷",1,,lei,S,\n', True),
        ("李雷_7_assignsubmission_file", '"李, 雷",7,,lei,S,\n', True),
        ("李雷_8_9_lab2.py", '"李, 雷",7,,lei,S,\n', False),  # Canvas's number is another
        ("Lei Li", '"Li, Lei",1,,lei,S,\n', True),
    ],
)
def test_whose_row_it_is(tmp_path: Path, folder: str, rows: str, filled: bool) -> None:
    out = one_class(tmp_path, folder)
    rest = '"Name Entirely, Other",99,,other_name_entirely,S,\n'
    book = placed(tmp_path / "g.csv", (HEADER + rows + rest).encode())
    assert export("canvas", out, book) == (0 if filled else 1)
    found = [row[-1] for row in csv.reader(io.StringIO((tmp_path / "g-filled.csv").read_text()))]
    *others, last, somebody_else = found[2:]
    assert somebody_else == "100" and last == ("100" if filled else "") and not any(others)


def test_a_roster_changes_ids_and_not_the_row(tmp_path: Path) -> None:
    source = placed(tmp_path / "canvas.zip", zipped(CANVAS))
    roster = Enrolment([Student("1001", "王芳")])
    record = graded(source, tmp_path / "out", CANVAS_POINTS, roster)
    assert [one.origin.students[0].id for one in record.hand_ins].count("1001") == 3
    book = placed(tmp_path / "Grades.csv", CANVAS_BOOK.encode())
    assert export("canvas", tmp_path / "out", book) == 1
    wanted = exchanged(CANVAS_BOOK, CANVAS_FILLED)
    assert (tmp_path / "Grades-filled.csv").read_bytes() == wanted.encode()


def test_a_name_that_does_not_fit_its_id_is_left_to_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where groups hand in, Moodle's number is the group's, and may be that of a student."""
    out = moodle_class(tmp_path)
    text = MOODLE_BOOK.replace("Han Meimei", "Somebody Else")
    book = placed(tmp_path / "sheet.csv", text.encode())
    assert export("moodle", out, book) == 1
    assert "Han_Meimei_22 ≠ Somebody Else" in capsys.readouterr().err
    assert b",50.00,100.00" in (tmp_path / "sheet-filled.csv").read_bytes()
    assert export("moodle", out, book, "--trust-ids") == 1
    assert b",60,100.00" in (tmp_path / "sheet-filled.csv").read_bytes()


def test_two_hand_ins_for_one_row_fill_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = under("李雷") | under("99_李雷") | under("bo")
    graded(placed(tmp_path / "c.zip", zipped(files)), tmp_path / "out", {})
    rows = '"李, 雷",99,,lei,S,50\nBo,10,,bo,S,\n'
    book = placed(tmp_path / "g.csv", (HEADER + rows).encode())
    assert export("canvas", tmp_path / "out", book) == 1
    assert (tmp_path / "g-filled.csv").read_text().endswith("S,50\nBo,10,,bo,S,100\n")
    assert "fit more than one hand-in" in capsys.readouterr().err


def test_a_spreadsheet_may_leave_out_empty_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = placed(tmp_path / "c.zip", zipped({"li_7_8_lab2.zip": zipped(GOOD)}))
    graded(source, tmp_path / "out", {})
    text = "Student,ID,Section,Lab 2 (3),Total\nPoints Possible,,,100\nLi,7,S,{}\nHan,8\n"
    book = placed(tmp_path / "g.csv", text.format("").encode())
    assert export("canvas", tmp_path / "out", book) == 0
    assert (tmp_path / "g-filled.csv").read_text() == text.format(100)
    placed(book, text.replace("S,{}", "S").encode())
    capsys.readouterr()
    assert export("canvas", tmp_path / "out", book) == 2
    assert "line 3: 3 cells" in capsys.readouterr().err


# ---------------------------------------------------------------- what cannot be filled


BAD_CANVAS = {
    "no CSV": (b"\x00\x01\x02", "no CSV text"),
    "a workbook": (b"PK\x03\x04....", "Excel"),
    "empty": (b"", "holds nothing"),
    "only delimiters": (b"\xef\xbb\xbf,,,\r\n", "holds nothing"),
    "quoted cells with nothing in them": (b'"","",""\r\n"",""\r\n', "holds nothing"),
    "columns without end": (b'"x"' + b',""' * 100_000, "no grade book of Canvas"),
    "bytes of no encoding": (b"Student,ID\n\xff\xff\xfe", "no CSV text"),
    "a Moodle worksheet": (MOODLE_BOOK.encode(), "no grade book of Canvas"),
    "an open quote": (CANVAS_BOOK.encode() + b'"Li', "line 14: a quotation mark"),
    "no points": (CANVAS_BOOK.replace("Points Possible", "Points").encode(), "Points Possible"),
    "points of nothing": (CANVAS_BOOK.replace("100.00", "").encode(), "one maximum"),
    "points of zero": (CANVAS_BOOK.replace("100.00", "0.00").encode(), "one maximum"),
    "another lab": (CANVAS_BOOK.replace("Lab 2", "Lab 3").encode(), "--column TITLE"),
    "two of this lab": (CANVAS_BOOK.replace("Lab 1", "Lab 2 again").encode(), "--column TITLE"),
    "other names": (
        re.sub(r'^"[A-Z=].*?",1', '"Kim, Joe",1', CANVAS_BOOK, flags=re.M)
        .replace('"王, 芳"', '"金, 乔"')
        .encode(),
        "--trust-ids",
    ),
    "nobody of the class": (CANVAS_BOOK.replace('",100', '",700').encode(), "no hand-in"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CANVAS)
def test_what_cannot_be_filled_is_one_sentence(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, words = BAD_CANVAS[case]
    out, book = canvas_class(tmp_path), placed(tmp_path / "Grades.csv", data)
    before = sorted(tmp_path.rglob("*"))
    for language in ("en", "zh"):
        assert export("canvas", out, book, language=language) == 2
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1 and "Grades.csv" in said.err
        assert language == "zh" or words in said.err
    assert sorted(tmp_path.rglob("*")) == before and book.read_bytes() == data


def test_columns_are_named_by_title_or_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = canvas_class(tmp_path)
    text = CANVAS_BOOK.replace("50.00", "100").replace("Notes,", "Lab 1,")
    book = placed(tmp_path / "Grades.csv", text.encode())
    for column in ("54", "lab 1", "Lab 1 (54)"):
        assert export("canvas", out, book, "--column", column) == 1
        assert "column “Lab 1 (54)”" in capsys.readouterr().out
    for column in ("Current Score", "Section", "nothing", "5"):
        assert export("canvas", out, book, "--column", column) == 2
        assert "there are: Lab 1 (54); Lab 2: Qwen3 (55)" in capsys.readouterr().err
    closed = placed(tmp_path / "closed.csv", text.replace("100,100.00", "(read only),1").encode())
    assert export("canvas", out, closed, "--column", "54") == 2
    assert "read only" in capsys.readouterr().err


BAD_MOODLE = {
    "a grade book of Canvas": (CANVAS_BOOK, (), "no grading worksheet"),
    "a header alone": (MOODLE_BOOK.splitlines()[0], (), "no grading worksheet"),
    "a scale": (MOODLE_BOOK.replace('"Maximum Grade"', "Scale"), (), "scale of words"),
    "two maxima": (MOODLE_BOOK.replace("5.00,100.00", "5.00,50.00"), (), "one maximum"),
    "another maximum": (MOODLE_BOOK.replace(",100.00", ",10.00"), (), "--scale"),
    "no such column": (MOODLE_BOOK, ("--grade-column", "Mark"), "no column “Mark”"),
    "two grades": (MOODLE_BOOK.replace(",Status", ",Grade"), (), "more than one column"),
    "another one": (MOODLE_BOOK.replace("Participant 2", "Participant 92"), (), "no hand-in"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_MOODLE)
def test_what_moodle_would_not_take_is_one_sentence(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, options, words = BAD_MOODLE[case]
    out, book = moodle_class(tmp_path), placed(tmp_path / "sheet.csv", text.encode())
    before = sorted(tmp_path.rglob("*"))
    assert export("moodle", out, book, *options) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1 and words in said.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_class_or_a_book_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = canvas_class(tmp_path)
    assert export("canvas", out, tmp_path / "none.csv") == 2
    assert "No such file" in capsys.readouterr().err
    assert export("canvas", tmp_path, placed(tmp_path / "g.csv", CANVAS_BOOK.encode())) == 2
    assert "class.json" in capsys.readouterr().err
    assert export("canvas", out, tmp_path / "g.csv", "--to", tmp_path / "no" / "g.csv") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1

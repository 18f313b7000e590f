"""Rosters as course systems write them, and who is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.course.records import Origin, Student
from autograder.intake import roster
from autograder.intake.listing import find
from autograder.intake.tree import Entry
from tests.archives import LAB, laid, placed, under

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Lab 2 (77),Final Score
    Points Possible,,,,,100,(read only)
"Li, Wei",11,2024001,li@example.edu,A,,
"Wang, Fang",12,2024002,wang@example.edu,A,,
"""
MOODLE = """Identifier,Full name,Email address,Status,Grade
Participant 21,Li Wei,li@example.edu,x,
Participant 22,Wang Fang,wang@example.edu,x,
"""
NBGRADER = "id,last_name,first_name,email\nli,Li,Wei,li@example.edu\n"
GITHUB = '"identifier","github_username","github_id","name"\n"2024001","liwei","5","Li Wei"\n'
GRADESCOPE = """First Name,Last Name,SID,Email,Role,Section
Li,Wei,2024001,li@example.edu,Student,
Big,Boss,,boss@example.edu,Instructor,
Help,Ful,,ta@example.edu,TA,
"""


def read(tmp_path: Path, text: str | bytes, name: str = "roster.csv") -> tuple[Student, ...]:
    return roster.read(placed(tmp_path / name, text.encode() if isinstance(text, str) else text))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (CANVAS, Student("11", "Li, Wei", "li@example.edu", "Wei", "Li")),
        (MOODLE, Student("21", "Li Wei", "li@example.edu")),
        (
            "标识符,姓名,Email地址,状态,成绩\n参与人21,李雷,li@example.edu,已提交,\n",
            Student("21", "李雷", "li@example.edu"),
        ),
        ("識別碼,全名\n參與者 21,李雷\n", Student("21", "李雷")),
        (NBGRADER, Student("li", "Wei Li", "li@example.edu", "Wei", "Li")),
        (GITHUB, Student("2024001", "Li Wei")),
        (GRADESCOPE, Student("2024001", "Li Wei", "li@example.edu", "Li", "Wei")),
        (
            "学号,姓名,邮箱\n2024001,张伟,z@example.edu\n",
            Student("2024001", "张伟", "z@example.edu"),
        ),
        ("姓名;学号\n张伟;2024001\n", Student("2024001", "张伟")),
        ("姓\t名\t学号\n张\t伟\t2024001\n", Student("2024001", "张伟", "", "伟", "张")),
        ("\n\nStudent ID , NAME\n7, Ann \n\n", Student("7", "Ann")),
        ("name\nAnn\n", Student("", "Ann")),
        ("ＩＤ，x\n", None),
        ("username,section\nann,1\n", Student("ann")),
        ("学生姓名,学号/工号\n张伟,2024001\n", Student("2024001", "张伟")),
        ("id,name\n'2024001,Ann\n", Student("2024001", "Ann")),
        ('id,name\n="2024001",Ann\n', Student("2024001", "Ann")),
        ('id,name\n"=""2024001""",Ann\n', Student("2024001", "Ann")),
        ("id,name\n2024001.0,Ann\n", Student("2024001", "Ann")),
    ],
)
def test_rosters_of_course_systems(tmp_path: Path, text: str, first: Student | None) -> None:
    if first is None:
        with pytest.raises(roster.RosterError):
            read(tmp_path, text)
    else:
        assert read(tmp_path, text)[0] == first


HEADER = "Student,ID,SIS User ID,SIS Login ID,Section,Lab 2 (77),Final Score\n"
STUDENT = '"Li, Wei",11,2024001,li@example.edu,A,,\n'
ABOVE = {
    "points": "    Points Possible,,,,,100,(read only)\n",
    "posting": ",,,,,Manual Posting,\n",
    "muted": ",,,,,Muted,\n",
    "named": "Manual Posting,,,,,,\n",
    "translated": "    满分,,,,,100,（只读）\n",
    "both": ",,,,,Manual Posting,\n    Points Possible,,,,,100,(read only)\n",
    "test student": '"Student, Test",9,,6b86b273ff34fce19d6b804eff5a3f57,A,,\n',
}


@pytest.mark.parametrize("above", ABOVE.values(), ids=ABOVE)
def test_a_grade_book_of_canvas_whatever_rows_stand_above(tmp_path: Path, above: str) -> None:
    (found,) = read(tmp_path, HEADER + above + STUDENT)
    assert found.id == "11"
    two = HEADER.replace("Student,", "LastName,FirstName,", 1)
    pair = above.replace('"Student, Test"', "Student,Test")
    pair = pair if "Student,Test" in pair else pair.replace(",", ",,", 1)
    (found,) = read(tmp_path, f"{two}{pair}Li,Wei,11,2024001,li@example.edu,A,,\n")
    assert (found.first_name, found.last_name) == ("Wei", "Li")


def test_rows_that_are_no_students_are_left_out(tmp_path: Path) -> None:
    assert [one.id for one in read(tmp_path, CANVAS)] == ["11", "12"]
    assert [one.id for one in read(tmp_path, GRADESCOPE)] == ["2024001"]
    assert len(read(tmp_path, "id,name\n1,Ann\n1,Ann\n")) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gbk", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    data = "学号,姓名\r\n2024001,张伟\r\n".encode(encoding)
    assert read(tmp_path, data) == (Student("2024001", "张伟"),)


@pytest.mark.parametrize("name", ["Müller", "Björn Ångström", "José García", "Renée", "Zoë"])
def test_western_names_of_a_spreadsheet_are_no_chinese(tmp_path: Path, name: str) -> None:
    data = f"id;name\n1;{name}\n2;Smith\n".encode("cp1252")
    assert read(tmp_path, data)[0] == Student("1", name)


@pytest.mark.parametrize("name", ["張偉", "陳國強", "朱镕基", "李喆", "王", "彧"])
def test_names_in_gbk_stay_chinese(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, f"id,name\n1,{name}\n".encode("gbk")) == (Student("1", name),)


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        (b"", "roster_empty", "header line"),
        (b"id,name\n", "roster_empty", "header line"),
        (b"Lab 1,Lab 2\n3,4\n", "roster_header", "Lab 1, Lab 2"),
        ("作业一,作业二\n3,4\n".encode("gbk"), "roster_header", "line 1"),
        (b"id,name,x\n1,Ann,\n,,7\n", "roster_row", "line 3"),
        (b"PK\3\4\xff\xff\xff", "roster_not_text", "CSV"),
        (b'id,name\n1,"' + b"a" * 200_000, "roster_broken", "line"),
        (b'id,"' + b"a" * 200_000, "roster_broken", "line"),
        (b"id,name\n2.02E+09,Ann\n2.02E+09,Bo\n", "roster_rounded", "Excel has rounded"),
        (b"id,name\n7,Ann\n8,Cy\n7,Bo\n", "roster_rounded", "line 2, 4: the id 7"),
        (b"id\n2.02E+09\n2.02E+09\n", "roster_rounded", "2.02E+09"),
    ],
)
def test_a_wrong_roster_is_named_with_its_mend(
    tmp_path: Path, data: bytes, key: str, words: str
) -> None:
    with pytest.raises(roster.RosterError, match=r"roster\.csv") as caught:
        read(tmp_path, data)
    assert caught.value.reason.key.endswith(f".{key}")
    assert words in render(caught.value.reason, "en")
    assert render(caught.value.reason, "zh") in str(caught.value)


def test_a_roster_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.csv", tmp_path):
        with pytest.raises(roster.RosterError) as caught:
            roster.read(path)
        assert caught.value.reason.key == "intake.roster_unreadable"


def handed(*students: Student, name: str = "x") -> Entry:
    return Entry(name, Path(name), origin=Origin(name, students))


@pytest.mark.parametrize(
    ("student", "there"),
    [
        (Student("7"), Student("7")),
        (Student("PB7"), Student("ｐｂ7")),
        (Student("2024001", "Li Wei", "li@example.edu"), Student("11", "liwei", "LI@example.edu")),
        (Student("2024001", "", "li@example.edu"), Student("li@example.edu")),
        (Student("2024001", "Li, Wei"), Student("11", "liwei")),
        (Student("2024001", "Wei Li"), Student("11", "liwei")),
        (Student("2024001", "Li Wei"), Student("11", "weili")),
        (Student("2024001", "García, Ana María"), Student("11", "garcíaanamaría")),
        (Student("2024001", "Ana María García"), Student("11", "garcíaanamaría")),
        (Student("2024001", "张 伟"), Student("5", "张伟")),
        (Student("2024001", "张伟"), Student("张伟")),
        (Student("2024001", "Li Wei"), Student("li_wei")),
    ],
)
def test_who_is_found_in_one_way_or_another(student: Student, there: Student) -> None:
    assert roster.missing([student], [handed(there)]) == ()
    other = Student("99", "Nobody Else", "nobody@example.edu")
    assert roster.missing([student, other], [handed(there)]) == (other,)
    assert roster.missing([student], [handed(other)]) == (student,)


def test_the_number_of_another_system_is_nobodys_id() -> None:
    class_ = [Student("10001", "Zhang San"), Student("10002", "Li Si")]
    there = handed(Student("10002", "Zhang San"))
    assert roster.missing(class_, [there]) == (class_[1],)
    assert roster.missing(class_, [handed(Student("10002", "Participant"))]) == (class_[0],)


@pytest.mark.parametrize(
    ("one", "other", "fit"),
    [
        ("Zhang San", "San Zhang", True),
        ("andersonamy", "Anderson, Amy B.", True),
        ("Jose Garcia", "García, José", True),
        ("张三第二次", "张三", True),
        ("Zhang San", "张三", True),
        ("", "张三", True),
        ("anon", "Li Si", True),
        ("Zhang San", "Li Si", False),
        ("Bo", "Bob Li", False),
        ("张三", "李四", False),
    ],
)
def test_names_that_may_be_one_persons(one: str, other: str, fit: bool) -> None:
    assert roster.agree([one], [other]) is roster.agree([other], [one]) is fit


def test_namesakes_are_told_by_id() -> None:
    first, second = Student("1", "王伟"), Student("2", "王伟")
    assert roster.missing([first, second], [handed(Student("1", "王伟"))]) == (second,)
    by_name = handed(Student("11", "王伟"))
    assert roster.missing([first, second], [by_name]) == (first, second)
    assert roster.missing([first, second], [by_name, handed(Student("12", "王伟"))]) == ()


def test_all_members_of_a_group_have_handed_in() -> None:
    class_ = [Student(str(number)) for number in range(1, 5)]
    assert roster.missing(class_, [handed(Student("1"), Student("3"))]) == (class_[1], class_[3])


def test_nobody_and_everybody() -> None:
    class_ = (Student("1"), Student("2", "Ann"))
    assert roster.missing(class_, []) == class_
    assert roster.missing([], [handed(Student("1"))]) == ()
    assert roster.missing(class_, [Entry("1", Path("1")), Entry("ann", Path("a"))]) == ()


def test_a_roster_and_a_download(tmp_path: Path) -> None:
    files = {"liwei_11_1_attention.py": b"", **under("2024003_张伟"), **under("zoe")}
    entries = find(laid(tmp_path / "c", files), LAB)
    text = 'id,name\n2024001,"Li, Wei"\n2024003,张伟\n2024004,王芳\nzoe,Zoë\n'
    missing = roster.missing(read(tmp_path, text), entries)
    assert missing == (Student("2024004", "王芳"),)

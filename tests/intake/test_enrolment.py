"""People of a roster, found again in what a download tells about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course.records import HandIn, Origin, Student
from autograder.intake import roster
from autograder.intake.people import Directory, Enrolment, IdentityError
from autograder.intake.tree import Entry

ROSTER = (
    Student("2023001", "张三", "zhang@example.org"),
    Student("12345", "Anderson, Amy", "amy@example.org"),
    Student("77", "Li Wei", "li1@example.org"),
    Student("78", "Li Wei", "li2@example.org"),
)
ENROLMENT = Enrolment(ROSTER)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (Student("2023001", "张三"), ROSTER[0]),
        (Student("12345", "andersonamy"), ROSTER[1]),
        (Student("9001", "Amy Anderson"), ROSTER[1]),
        (Student("", "", "AMY@example.org"), ROSTER[1]),
        (Student("9002", "Li Wei"), None),  # either of two
        (Student("9002", "Li Wei", "li2@example.org"), ROSTER[3]),
        (Student("9003", "Nobody"), None),
    ],
)
def test_somebody_is_found_by_id_email_or_name(told: Student, found: Student | None) -> None:
    assert ENROLMENT.of(told) == found


def test_a_hand_in_gets_what_the_roster_knows() -> None:
    origin = Origin("x", (Student("9001", "Amy Anderson"), Student("5", "Guest", "g@x.org")))
    hand_in = HandIn("Amy_Anderson_9001", (), origin=origin)
    made = ENROLMENT.completed(hand_in)
    assert made.origin.students == (ROSTER[1], Student("5", "Guest", "g@x.org"))
    assert ENROLMENT.knows(hand_in)
    assert not ENROLMENT.knows(HandIn("eve", (), origin=Origin("e", (Student("eve"),))))
    assert Enrolment(()).completed(hand_in) == hand_in


def test_lines_that_stand_twice_are_one() -> None:
    assert Enrolment((*ROSTER, ROSTER[0])).of(Student("2023001")) == ROSTER[0]


def handed(student: str, *students: Student) -> Entry:
    return Entry(student, Path(student), origin=Origin(student, students or (Student(student),)))


def test_a_hand_in_has_the_id_of_the_roster() -> None:
    entries = [
        handed("2023001_张三", Student("2023001", "张三")),
        handed("Anderson_Amy_9", Student("9", "andersonamy")),
        handed("Li_Wei_5", Student("5", "Li Wei")),  # either of two
        handed("li1_example.org", Student("li1@example.org")),
        handed("stranger"),
        handed("team", Student("77"), Student("78")),
    ]
    found = Enrolment(ROSTER).identified(entries)
    ids = ["2023001", "12345", "Li_Wei_5", "77", "stranger", "team"]
    assert [one.student for one in found] == ids
    assert found[1].origin.students == (ROSTER[1],)
    assert [one.origin.name for one in found] == [one.origin.name for one in entries]
    assert Enrolment(()).identified(entries) == entries


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("12345_Amy Anderson_lab2", "12345"),  # as `make submit` calls it
        ("12345_lab2", "12345"),
        ("lab2-AMY.12345", "12345"),
        ("20S103123_李𬀩_lab2", "20S103123"),
        ("123456_Amy_lab2", "123456_Amy_lab2"),
        ("12345_20S103123_lab2", "12345_20S103123_lab2"),  # of two
    ],
)
def test_the_id_in_a_name_that_tells_nothing_else(name: str, found: str) -> None:
    known = Enrolment((*ROSTER, Student("20S103123", "李𬀩")))
    assert [one.student for one in known.identified([handed(name)])] == [found]


def test_an_id_in_a_name_takes_no_line_that_another_hand_in_has() -> None:
    entries = [handed("12345_Bob_lab2"), handed("Amy", Student("12345", "Amy Anderson"))]
    first, second = Enrolment(ROSTER).identified(entries)
    assert (first.student, second.student) == ("12345_Bob_lab2", "12345")
    assert [note.key for note in first.notes] == ["grade.same_line"]


def test_nobody_gets_the_id_of_a_namesake() -> None:
    two = [
        handed("amy_1", Student("1", "Amy Anderson")),
        handed("amy_2", Student("2", "Amy Anderson")),
    ]
    found = Enrolment(ROSTER).identified(two)
    assert [replace(one, notes=()) for one in found] == two
    assert [keys(one) for one in found] == [["grade.same_line"]] * 2
    surely = [handed("12345"), two[0]]
    found = Enrolment(ROSTER).identified(surely)
    assert [replace(one, notes=()) for one in found] == surely
    assert [keys(one) for one in found] == [[], ["grade.same_line"]]
    same = [handed("x", Student("1", "Amy Anderson")), handed("x-2", Student("1", "Amy Anderson"))]
    assert [one.student for one in Enrolment(ROSTER).identified(same)] == ["12345", "12345-2"]


def keys(entry: Entry) -> list[str]:
    return [note.key for note in entry.notes]


def test_the_number_of_another_system_is_not_the_rosters() -> None:
    """Moodle and Canvas count their users themselves: such a number may be anybody's id."""
    class_ = Enrolment(
        Student(str(10001 + at), name)
        for at, name in enumerate(("Zhang San", "Li Si", "Zhang Wei", "Wang Wu"))
    )
    names = ("Zhang San_10002", "Li Si_10003", "Wang Wu_10050", "Eve Doe_10004", "Zhang Wei_10001")
    told = [Student(name[-5:], name[:-6]) for name in names]
    found = class_.identified([handed(one.id, one) for one in told])
    students = [one.origin.students[0] for one in found]
    assert [one.student for one in found] == ["10001", "10002", "10004", "10004-2", "10003"]
    assert [one.name for one in students] == [one.name for one in told]
    assert [keys(one) for one in found] == [[], [], [], ["grade.other_name"], []]
    made = class_.completed(HandIn("x", (), found[3].notes, origin=found[3].origin))
    assert made.origin.students == (told[3],)
    more = Enrolment([Student("1", "José García López"), Student("2", "José García")])
    assert more.of(Student("1", "José García")) == more.listed[0]
    hidden = class_.identified([handed("x", Student("10002", "Participant"))])
    assert [one.student for one in hidden] == ["10002"]


def test_several_spellings_of_one_person_are_for_somebody_to_choose() -> None:
    spellings = [handed("Amy Anderson"), handed("amy_anderson"), handed("Anderson Amy")]
    found = ENROLMENT.identified(spellings)
    assert [keys(one) for one in found] == [["grade.same_line"]] * 3
    assert found[0].notes[0].values["others"] == "amy_anderson, Anderson Amy"
    assert all(
        ENROLMENT.completed(HandIn(one.student, (), one.notes, origin=one.origin)).origin
        == one.origin
        for one in found
    )
    everybody, later = Directory(found, (), ENROLMENT), Directory(found)
    for ask in (everybody.hand_in_of, everybody.key_of, later.hand_in_of, later.key_of):
        for text in ("Amy Anderson", "12345"):
            with pytest.raises(IdentityError, match=r"Amy.*Amy.*amy"):
                ask(text)
    for one in found:
        assert everybody.hand_in_of(one.student) == one.student


def test_a_classroom_of_github_knows_ids_and_logins(tmp_path: Path) -> None:
    text = 'identifier,github_username,github_id,name\n2021001,lw99,5,"Li, Wei"\n2021002,,,\n'
    path = tmp_path / "roster.csv"
    path.write_text(text)
    class_ = Enrolment(roster.read(path))
    for told in ("lw99", "2021001"):
        assert [one.student for one in class_.identified([handed(told)])] == ["2021001"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("77", "77"),
        ("LI1@example.org", "77"),
        ("anderson amy", "12345"),
        ("Amy Anderson", "12345"),
        ("team", "team"),
        ("Bo Chen", "team"),
        ("zoe-2", "zoe-2"),
        ("ZOE-2", "zoe"),
        ("张三", ""),
        ("nobody", ""),
    ],
)
def test_somebody_is_meant_by_id_email_or_name(text: str, found: str) -> None:
    entries = [
        handed("12345", ROSTER[1]),
        handed("77", ROSTER[2]),
        handed("team", Student("5", "Bo Chen"), Student("6", "Cy Du")),
        handed("zoe"),
        Entry("zoe-2", Path("zoe"), origin=Origin("zoe", (Student("zoe"),))),
    ]
    assert Directory(entries, [ROSTER[0]]).hand_in_of(text) == found
    with pytest.raises(IdentityError, match="78"):
        Directory([*entries, handed("78", ROSTER[3])]).hand_in_of("Li Wei")

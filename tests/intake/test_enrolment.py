"""People of a roster, found again in what a download tells about them."""

from __future__ import annotations

import pytest

from autograder.course.records import HandIn, Origin, Student
from autograder.intake.enrolment import Enrolment

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

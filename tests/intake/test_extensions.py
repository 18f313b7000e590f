"""extensions.csv: more time for single students, found by id or email, and slips named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.late import Extension, LateRules
from autograder.course.records import HandIn, Origin, Student
from autograder.grading import late as late_rules
from autograder.intake import extensions
from autograder.intake.extensions import ExtensionError

DUE = "2026-10-12T23:59:00+08:00"
LAB = "lab2_qwen3_block"
HEAD = "student_id,lab,days,until,reason\n"


def read(folder: Path, text: str | bytes) -> tuple[Extension, ...]:
    path = folder / "extensions.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return extensions.read(path, LAB, DUE)


def test_days_count_from_the_due_time_and_until_says_its_own(tmp_path: Path) -> None:
    lines = 's1,lab2,3,,"ill, twice"\n\nS2,,,2026-10-20T12:00:00Z,travel\ns1,3,9,,other lab\n'
    assert read(tmp_path, HEAD + lines) == (
        Extension("s1", "2026-10-15T23:59:00+08:00", "ill, twice"),
        Extension("S2", "2026-10-20T12:00:00+00:00", "travel"),
    )
    assert read(tmp_path, "Student_ID,Days\n李雷,1\n".encode("gbk"))[0].student == "李雷"
    assert read(tmp_path, "\ufeff" + HEAD) == ()


def test_a_time_without_an_offset_takes_that_of_the_course(tmp_path: Path) -> None:
    course = tmp_path / "course.toml"
    late = '[late]\nextensions = "extensions.csv"\n'
    lines = "student_id,lab,until,handed_in\ns1,2,2026-10-20T12:00,2026-10-20 09:00\n"
    (tmp_path / "extensions.csv").write_text(f"{lines}s2,2,2026-10-20T12:00Z,\n")
    for offset, found in (('offset = "-05:00"', "-05:00"), ("", "+08:00")):
        course.write_text(f"[due]\nlab2 = {DUE}\n{late}{offset}\n")
        one, two = late_rules.read(course, labfile.load(labfile.find_lab("2"))).extensions
        assert one.due == f"2026-10-20T12:00:00{found}"
        assert one.handed_in == f"2026-10-20T09:00:00{found}"
        assert two.due == "2026-10-20T12:00:00+00:00"


BAD = {
    "": "the first line is nothing; expected student_id",
    "name,days\n": "the first line is name,days; expected student_id",
    "student_id,days,days\n": "the first line is student_id,days,days",
    HEAD + ",,3,,\n": "line 2: student_id is empty",
    HEAD + "a,,,,\n": "line 2: has none of days, until and handed_in; fill one",
    HEAD + "a,,1,2026-10-20T12:00:00Z,\n": "line 2: has both days and until",
    HEAD + "a,,-1,,\n": "line 2: days is '-1', expected a whole number from 0 to 365",
    HEAD + "a,,²,,\n": "days is '²'",
    HEAD + "a,,99999999999,,\n": "expected a whole number from 0 to 365",
    HEAD + "a,,,tomorrow,\n": "until is 'tomorrow', expected a date and time",
    HEAD + "a,,,2026-10-20,\n": "expected a date and time, as 2026-10-20T12:00",
    HEAD + "a,lab99,1,,\n": "line 2: lab: no lab is called 'lab99'",
    HEAD + "a,2,1,,\nb,,1,,\nA ,lab2,2,,\n": "line 4: A has two lines for one lab; keep one",
    HEAD + "a,,1,,ill, and more\n": "line 2: 6 cells below 5 columns",
    HEAD + "\n\na,,x,,\n": "line 4: days is 'x'",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_slip_is_named_with_its_line_and_mend(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExtensionError) as caught:
        read(tmp_path, text)
    assert "extensions.csv: " in str(caught.value) and BAD[text] in str(caught.value)


def test_a_line_may_say_when_a_hand_in_came(tmp_path: Path) -> None:
    head, time = "student_id,lab,days,handed_in\n", "2026-10-14T00:00:00+08:00"
    (found,) = read(tmp_path, f"{head}s1,lab2,,{time}\n")
    assert found == Extension("s1", DUE, "", time)
    (longer,) = read(tmp_path, f"{head}s1,lab2,1,{time}\n")
    assert longer.due == "2026-10-13T23:59:00+08:00"
    for line, words in (
        (f"s1,,,{time}", "handed_in is the time of one hand-in; fill lab, too"),
        ("s1,lab2,,yesterday", "handed_in is 'yesterday', expected a date and time"),
    ):
        with pytest.raises(ExtensionError, match=words):
            read(tmp_path, f"{head}{line}\n")


def test_a_file_that_is_absent_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExtensionError, match="No such file"):
        extensions.read(tmp_path / "no.csv", LAB, DUE)
    with pytest.raises(ExtensionError, match="not text"):
        read(tmp_path, b"student_id\n\xff\xff\x00")


RULES = LateRules(
    DUE,
    percent_per_day=10,
    extensions=(
        Extension("S1", "2026-10-14T23:59:00+08:00", "ill"),
        Extension("li@example.org", "2026-10-16T23:59:00+08:00", "travel"),
        Extension("nobody", "2026-10-16T23:59:00+08:00", ""),
    ),
)


def handed(student: str, *people: Student) -> HandIn:
    origin = Origin(students=people, submitted_at="2026-10-15T12:00:00+08:00")
    return HandIn(student, (), origin=origin)


@pytest.mark.parametrize(
    ("hand_in", "days"),
    [
        (handed("alice"), 3),
        (handed("s1"), 1),
        (handed("alice_7", Student("Ｓ1")), 1),
        (handed("x", Student("9", "Li", "LI@example.org")), 0),
        (handed("group", Student("s1"), Student("9", email="li@example.org")), 0),
        (handed("s11", Student("s11", "S1")), 3),  # a name is no id
    ],
)
def test_an_extension_is_found_by_id_or_email(hand_in: HandIn, days: int) -> None:
    late = extensions.Clock(RULES).timed(hand_in).lateness
    assert late is not None and late.days == days and late.extended == (days < 3)
    assert extensions.Clock(None).timed(extensions.Clock(RULES).timed(hand_in)) == hand_in


def test_extensions_of_nobody_are_listed() -> None:
    some = [handed("s1"), handed("g", Student("9", email="li@example.org"))]
    assert strangers(some, ()) == ["nobody"]
    missing = [Student("nobody"), Student("", "Li", "li@example.org")]
    assert strangers([handed("s1")], missing) == []


def strangers(hand_ins: Iterable[HandIn], missing: Iterable[Student]) -> list[str]:
    found = extensions.Strangers(RULES.extensions, missing)
    for hand_in in hand_ins:
        found.take(hand_in)
    return found.left()

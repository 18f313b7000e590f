"""course.toml: what it says, and that every slip in it is named with its mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course import course_file
from autograder.course.course_file import CourseError
from autograder.course.late import LateRules

DUE = "[due]\nlab2 = 2026-10-12T23:59:00+08:00\n"
WHOLE = """
[due]
1 = 2026-09-28 23:59:00Z
lab2 = 2026-10-12T23:59:00+08:00
lab3_kv_cache = 2026-10-26T23:59:00.5-05:30
[late]
grace_minutes = 15
percent_per_day = 10
max_days = 0
extensions = "more/extensions.csv"
offset = "+08:00"
"""


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "course.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_it_says_when_each_lab_is_due_and_what_lateness_costs(tmp_path: Path) -> None:
    course = course_file.read(write(tmp_path, WHOLE))
    assert course.of("lab1_foundations").due == "2026-09-28T23:59:00+00:00"
    assert course.of("lab3_kv_cache").due == "2026-10-26T23:59:00.500000-05:30"
    expected = LateRules("2026-10-12T23:59:00+08:00", 15, 10, 0, "+08:00")
    assert course.of("lab2_qwen3_block") == expected
    assert course.extensions == tmp_path / "more" / "extensions.csv"


def test_without_late_a_due_time_costs_nothing(tmp_path: Path) -> None:
    course = course_file.read(write(tmp_path, b"\xef\xbb\xbf" + DUE.encode()))
    assert course.of("lab2_qwen3_block") == LateRules("2026-10-12T23:59:00+08:00")
    assert course.extensions is None
    with pytest.raises(CourseError, match=r"\[due\]: lab5 is missing; add lab5 = "):
        course.of("lab5_tensor_parallel")


BAD = {
    "": "due: is missing",
    "[due": "not TOML in UTF-8",
    "due = 3": "due: is missing or not of the kind dict",
    DUE + "[extra]\n": "extra: unknown key; known are due, late, submit",
    "extensions = 'a.csv'\n" + DUE: "extensions: unknown key; known are due, late, submit",
    "[due]\nlab77 = 2026-10-12T23:59:00Z": "lab77: no lab is called 'lab77'",
    "[due]\nlab2 = 2026-10-12T23:59:00": "offset, as 2026-10-12T23:59:00+08:00",
    "[due]\nlab2 = 2026-10-12": "expected a date and time with its offset",
    '[due]\nlab2 = "2026-10-12T23:59:00Z"': "(no quotes)",
    "[due]\nlab2 = 9999-12-31T23:59:00Z": "expected a year from 2000 to 2999",
    DUE + "2 = 2026-10-12T23:59:00Z": "lab2_qwen3_block stands there twice; keep one line",
    DUE + "[late]\ngrace_minutes = 1.5": "grace_minutes: is missing or not of the kind int",
    DUE + "[late]\ngrace_minutes = -1": "grace_minutes: is -1, expected a whole number from 0",
    DUE + "[late]\npercent_per_day = 101": "is 101, expected a whole number from 0 to 100",
    DUE + "[late]\npercent_per_day = true": "percent_per_day: is missing or not of the kind int",
    DUE + "[late]\nmax_days = '3'": "max_days: is missing or not of the kind int or NoneType",
    DUE + "[late]\noffset = 'CST'": "is 'CST', expected an offset as \"+08:00\"",
    DUE + "[late]\nextensions = 3": "extensions: is missing or not of the kind str",
    DUE + "[late]\nper_day = 3": "per_day: unknown key; known are grace_minutes",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_slip_is_named_with_file_key_and_mend(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(CourseError) as caught:
        course_file.read(path)
    assert str(caught.value).startswith(f"{path}: ") and BAD[text] in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match=r"No such file.*--course takes a course\.toml"):
        course_file.read(tmp_path / "course.toml")
    with pytest.raises(CourseError, match="not TOML in UTF-8"):
        course_file.read(write(tmp_path, "[due] # 截止".encode("gbk")))

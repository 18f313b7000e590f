"""Who handed in, when, and what a person has decided: in every report, and in both languages."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from autograder.course.records import ClassRecord, HandIn, Origin, Override, Student
from autograder.course.score import needs_human, score_of
from autograder.report import student_pages, write
from autograder.report.class_file import from_json, to_json
from autograder.report.table import class_table
from tests.report.test_report import ALL_PASSED, CLASS, LAB, MIXED

ORIGIN = Origin(
    name="assignment_1_export/submission_7",
    students=(Student("s1", "Zoë Ng", "zoe@example.org"), Student("s2", "李雷")),
    submitted_at="2026-11-02T23:59:00+08:00",
    late=True,
    attempt=3,
)
RENDERERS = [student_pages.student_markdown, student_pages.student_html]


def a_class(hand_in: HandIn) -> ClassRecord:
    return replace(CLASS, hand_ins=(hand_in,))


def rows(record: ClassRecord) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(write.scores(record))))


def decided(hand_in: HandIn, check: str, points: int, reason: str = "right after all") -> HandIn:
    override = Override(hand_in.student, check, points, reason, "Dr. Li")
    return replace(hand_in, overrides=(override,))


def first_check(hand_in: HandIn, *outcomes: str) -> str:
    """A check of the lab with points whose outcome is one of these."""
    found = {result.check: result.outcome.value for result in hand_in.results}
    return next(c.name for c in LAB.checks if c.points and found.get(c.name) in outcomes)


@pytest.mark.parametrize("make", RENDERERS)
def test_reports_say_who_handed_in_and_when(make) -> None:  # type: ignore[no-untyped-def]
    hand_in = replace(MIXED, origin=ORIGIN)
    for language, words in (
        ("en", ("handed in by", "submitted at", "attempt 3", "late")),
        ("zh", ("提交人", "提交时间", "第 3 次提交", "迟交")),
    ):
        text = make(a_class(hand_in), hand_in, language)
        assert all(word in text for word in (*words, "Zoë Ng", "李雷", "23:59"))


def test_the_scores_carry_what_the_course_system_told() -> None:
    (row,) = rows(a_class(replace(MIXED, origin=ORIGIN)))
    assert (row["late"], row["attempt"], row["email"]) == ("true", "3", "zoe@example.org")
    assert row["timestamp"] == ORIGIN.submitted_at and row["students"] == "Zoë Ng; 李雷"
    (plain,) = rows(a_class(MIXED))
    assert (plain["late"], plain["attempt"], plain["students"]) == ("", "1", "")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_override_counts_and_says_by_whom_and_why(language: str) -> None:
    check = first_check(MIXED, "failed", "crashed", "timed_out")
    points = next(c.points for c in LAB.checks if c.name == check)
    before = score_of(LAB, MIXED)
    hand_in = decided(MIXED, check, points)
    assert score_of(LAB, hand_in).earned == before.earned + points
    for make in RENDERERS:
        text = make(a_class(hand_in), hand_in, language)
        assert "Dr. Li" in text and "right after all" in text
    (row,) = rows(a_class(hand_in))
    assert row["decided_by"] == "Dr. Li"
    assert ("decided by" if language == "en" else "人工改分") in class_table(
        a_class(hand_in), language
    )


def test_an_override_can_take_points_and_settle_what_was_open() -> None:
    passed = first_check(ALL_PASSED, "passed")
    points = next(c.points for c in LAB.checks if c.name == passed)
    assert score_of(LAB, decided(ALL_PASSED, passed, 0)).earned == 100 - points
    opened = first_check(MIXED, "not_graded")
    before, after = score_of(LAB, MIXED), score_of(LAB, decided(MIXED, opened, 1))
    assert after.earned == before.earned + 1 and after.undecided < before.undecided
    assert needs_human(LAB, MIXED)


@pytest.mark.parametrize("attack", ["<script>x</script>", "=1+1", "\x1b[31m", "[a](http://x)"])
def test_names_and_reasons_are_text(attack: str) -> None:
    check = first_check(MIXED, "failed")
    origin = replace(ORIGIN, students=(Student(attack, attack, attack),) * 2)
    hand_in = replace(decided(MIXED, check, 0, attack), origin=origin)
    record = replace(a_class(hand_in), missing=(Student(attack, attack, attack),))
    assert "<script>x" not in student_pages.student_html(record, hand_in, "en")
    assert "\x1b" not in student_pages.student_markdown(record, hand_in, "en") + class_table(
        record, "en"
    )
    for row in rows(record):
        assert not any(cell.startswith(("=", "\x1b")) for cell in row.values())


def test_who_handed_in_nothing_is_listed() -> None:
    record = replace(CLASS, missing=(Student("s9", "韩梅梅", "h@example.org"), Student("s8")))
    for language in ("en", "zh"):
        last = class_table(record, language).splitlines()[-1]
        assert "韩梅梅" in last and "s8" in last and "2" in last
    *_, one, two = rows(record)
    assert (one["student_id"], one["score"], one["status"]) == ("s9", "", "nothing handed in")
    assert (two["student_id"], two["max_score"]) == ("s8", "100")


def test_all_of_it_is_in_the_class_file() -> None:
    check = first_check(MIXED, "failed")
    hand_in = replace(decided(MIXED, check, 0), origin=ORIGIN)
    record = replace(a_class(hand_in), missing=(Student("s9"),))
    again = from_json(json.loads(json.dumps(to_json(record))))
    assert again.hand_ins == record.hand_ins and again.missing == record.missing


def test_a_class_file_without_any_of_it_is_still_read() -> None:
    data = json.loads(json.dumps(to_json(a_class(MIXED))))
    del data["missing"], data["hand_ins"][0]["origin"], data["hand_ins"][0]["overrides"]
    assert from_json(data).hand_ins == (MIXED,)

"""A late hand-in in every report: the raw score stays, the deduction is a line of its own."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from autograder.course.late import Extension, Lateness, LateRules
from autograder.course.records import ClassRecord, HandIn, Origin
from autograder.report import student_pages, write
from autograder.report.class_file import from_json, text_of, to_json
from autograder.report.table import class_table
from tests.report.test_report import ALL_PASSED, CLASS, MIXED

DUE = "2026-10-12T23:59:00+08:00"
RULES = LateRules(DUE, 15, 10, 5, "+08:00", (Extension("s1", DUE, "a private reason"),))
TWO_DAYS = Lateness(DUE, days=2, percent=20)
RENDERERS = [student_pages.student_markdown, student_pages.student_html]


def a_class(hand_in: HandIn, lateness: Lateness | None) -> ClassRecord:
    return replace(CLASS, hand_ins=(replace(hand_in, lateness=lateness),), late_rules=RULES)


def text(made: ClassRecord, make: object, language: str) -> str:
    assert callable(make)
    shown: str = make(made, made.hand_ins[0], language)
    return shown


def row(made: ClassRecord) -> dict[str, str]:
    (only,) = csv.DictReader(io.StringIO(write.scores(made)))
    return only


@pytest.mark.parametrize("make", RENDERERS)
def test_the_deduction_stands_under_the_raw_score(make: object) -> None:
    made = a_class(ALL_PASSED, TWO_DAYS)
    english, chinese = text(made, make, "en"), text(made, make, "zh")
    line = "Days late: 2. That takes 20 % of the points: −20. What counts: 80 of 100 points."
    assert english.index("100 of 100 points") < english.index(line)
    assert "迟交天数：2，扣除所得分数的 20 %：−20 分。计入成绩：80 / 100 分。" in chinese
    assert f"due {DUE}" in english and "· late" in english
    assert "a private reason" not in english + chinese


@pytest.mark.parametrize("make", RENDERERS)
def test_points_to_be_decided_do_not_hide_the_deduction(make: object) -> None:
    english = text(a_class(MIXED, TWO_DAYS), make, "en")
    assert "−4. What counts: 16 of 100 points." in english and "20 to be decided" in english


@pytest.mark.parametrize("make", RENDERERS)
def test_after_the_last_day_nothing_counts_and_the_report_says_so(make: object) -> None:
    made = a_class(ALL_PASSED, Lateness(DUE, days=6, percent=100, closed=True))
    assert "more than the course accepts: −100. What counts: 0 of 100" in text(made, make, "en")
    assert "超过课程允许的期限" in text(made, make, "zh")


@pytest.mark.parametrize("make", RENDERERS)
def test_in_time_nothing_is_said_but_when_it_was_due(make: object) -> None:
    english = text(a_class(ALL_PASSED, Lateness(DUE, extended=True)), make, "en")
    assert f"due {DUE} (extended for you)" in english
    assert (
        "late"
        not in english.replace(".late {", "").lower().partition("</style>")[2]
        + (english if make is student_pages.student_markdown else "").lower()
    )


@pytest.mark.parametrize("make", RENDERERS)
@pytest.mark.parametrize(
    ("late", "why", "words"),
    [
        (None, "no_time", "time of this hand-in is unknown"),
        (True, "no_time", "time of this hand-in is unknown"),
        (None, "no_offset", "has no UTC offset"),
        (False, "no_time", ""),
    ],
)
def test_where_no_time_is_known_nothing_is_taken_off(
    make: object, late: bool | None, why: str, words: str
) -> None:
    hand_in = replace(ALL_PASSED, origin=Origin(late=late))
    made = a_class(hand_in, Lateness(DUE, days=None, why=why))
    english = text(made, make, "en")
    assert words in english and "−" not in english
    assert ("nothing is taken off" in english) == bool(words)
    only = row(made)
    assert (only["score"], only["late_submission_penalty"]) == ("100", "0")
    assert only["late"] == {None: "", True: "true", False: "false"}[late]


def test_the_scores_have_nbgraders_columns_filled() -> None:
    only = row(a_class(ALL_PASSED, TWO_DAYS))
    names = ("raw_score", "late_submission_penalty", "score", "duedate", "late", "days_late")
    assert [only[name] for name in names] == ["100", "20", "80", DUE, "true", "2"]
    open_one = row(a_class(MIXED, TWO_DAYS))
    assert (open_one["raw_score"], open_one["score"]) == ("20", "")
    without = row(replace(CLASS, hand_ins=(ALL_PASSED,)))
    assert [without[name] for name in names] == ["100", "", "100", "", "", ""]


def test_a_time_that_a_person_has_entered_is_shown() -> None:
    late = replace(TWO_DAYS, told_by_hand="2026-10-14T12:00:00+08:00")
    made = a_class(ALL_PASSED, late)
    assert row(made)["timestamp"] == late.told_by_hand
    assert f"submitted at {late.told_by_hand}" in text(made, student_pages.student_markdown, "en")


def test_the_table_names_the_days_and_what_counts() -> None:
    made = a_class(ALL_PASSED, TWO_DAYS)
    assert "days late: 2, −20, 80 count" in class_table(made, "en")
    assert "迟交天数：2，−20，计 80 分" in class_table(made, "zh")


def test_the_record_holds_rules_and_lateness() -> None:
    made = a_class(ALL_PASSED, TWO_DAYS)
    again = from_json(json.loads("".join(text_of(made))))
    assert again.late_rules == RULES and again.hand_ins[0].lateness == TWO_DAYS
    assert to_json(again) == to_json(made)
    assert json.loads(json.dumps(to_json(made)["late_rules"])) == to_json(made)["late_rules"]
    score = to_json(made)["hand_ins"][0]["score"]
    assert (score["earned"], score["late_penalty"], score["final"]) == (100, 20, 80)


def test_an_older_record_without_them_is_read() -> None:
    data = to_json(CLASS)
    del data["late_rules"]
    for one in data["hand_ins"]:
        del one["lateness"]
    assert from_json(data) == from_json(to_json(CLASS))


@pytest.mark.parametrize("damage", [{"days": "2"}, {"percent": 1.5}, {"due": None}, [1]], ids=str)
def test_a_damaged_lateness_is_named(damage: object) -> None:
    data = to_json(a_class(ALL_PASSED, TWO_DAYS))
    late = data["hand_ins"][0]["lateness"]
    data["hand_ins"][0]["lateness"] = late | damage if isinstance(damage, dict) else damage
    with pytest.raises(ValueError, match=r"class\.json: damaged in hand_ins\[0\]"):
        from_json(data)

"""A file that could not be used is one fault, and no wrong answer, wherever it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autograder.course.late import Lateness
from autograder.course.records import LANGUAGES, CheckResult, Frame, HandIn, Message, Outcome
from autograder.exports import gradescope
from autograder.exports.junit import check_lines
from autograder.report import dashboard, student_pages
from autograder.report.broken_files import broken_files
from autograder.report.class_mistakes import survey
from autograder.report.class_summary import ClassSummary
from tests.report import classes
from tests.report.test_dashboard import Elements
from tests.report.test_report import ALL_PASSED, LAB, record

SYNTAX = Message("check.syntax", {"file": "attention.py", "text": "oops", "line": 37})
WHERE = {"en": "line 37", "zh": "第 37 行"}
IMPORT = Message(
    "check.import_line",
    {"file": "attention.py", "type": "NameError", "text": "tensor", "where": WHERE},
)
OTHERS = [
    Message("intake.missing", {"file": "attention.py"}),
    Message("check.missing", {"file": "attention.py", "name": "Qwen3Attention"}),
    Message(
        "check.missing_near",
        {"file": "attention.py", "name": "Qwen3Attention", "found": "QwenAttention"},
    ),
    Message("check.wrong_lab", {"file": "attention.py", "lab": "lab3_kv_cache"}),
    Message("check.empty_file", {"file": "attention.py"}),
]
RENDERERS = [student_pages.student_markdown, student_pages.student_html]


def without_attention(message: Message, outcome: Outcome = Outcome.FAILED, **more: Any) -> HandIn:
    """Of the lab's 100 points 60 are in attention.py; the other file is right."""
    results = []
    for exercise in LAB.exercises:
        for check in exercise.checks:
            broken = CheckResult(check.name, outcome, message, **more)
            if exercise.file == "mlp.py":
                broken = CheckResult(check.name, Outcome.PASSED)
            results.append(broken)
    return replace(ALL_PASSED, student="li", results=tuple(results))


@pytest.mark.parametrize("message", [SYNTAX, IMPORT, *OTHERS], ids=lambda one: str(one.key))
def test_a_file_is_one_fault_with_all_its_points(message: Message) -> None:
    (broken,) = broken_files(LAB, without_attention(message))
    assert (broken.files, broken.points, len(broken.checks)) == (("attention.py",), 60, 5)


def test_what_ends_an_import_in_any_way_is_of_the_file() -> None:
    deadline = Message("check.timed_out", {"seconds": 2, "clock": "CPU", "case": "import"})
    assert broken_files(LAB, without_attention(deadline, Outcome.TIMED_OUT, case="import"))
    assert not broken_files(LAB, without_attention(deadline, Outcome.TIMED_OUT, case="a batch"))
    todo = Message("check.not_started", {"todo": "lab2.norm"})
    assert not broken_files(LAB, without_attention(todo, Outcome.NOT_STARTED, case="import"))


def test_what_builds_on_a_file_depends_on_it_and_one_cause_shows_once() -> None:
    record = without_attention(SYNTAX)
    results = {result.check: result for result in record.results}
    needs = Message("check.needs", {"check": "RoPE angles"})
    results["rope_shift"] = CheckResult("rope_shift", Outcome.SKIPPED, needs)
    (broken,) = broken_files(LAB, replace(record, results=tuple(results.values())))
    assert broken.points == 60
    # mlp.py imports the other file: what it raises is the same, wherever it is met.
    frames = (Frame("attention.py", 37, "<module>", "tensor"),)
    both = [
        replace(one, outcome=Outcome.FAILED, message=IMPORT, frames=frames)
        for one in without_attention(IMPORT).results
    ]
    other = {**IMPORT.values, "file": "mlp.py", "where": {"en": "attention.py, line 37", "zh": ""}}
    both[-1] = replace(both[-1], message=replace(IMPORT, values=other))
    (broken,) = broken_files(LAB, replace(record, results=tuple(both)))
    assert (broken.files, broken.points) == (("attention.py", "mlp.py"), 100)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", RENDERERS)
def test_a_report_says_it_once_and_as_the_next_step(make: Any, language: str) -> None:
    hand_in = without_attention(IMPORT, frames=(Frame("attention.py", 37, "<module>", "tensor"),))
    page = make(record(hand_in), hand_in, language)
    text = Elements(page).text if make is student_pages.student_html else page
    assert WHERE[language] in text and text.count("NameError") == 1
    points = {
        "en": ("60 points depend on it", "60 points to gain"),
        "zh": ("60 分取决", "得到 60 分"),
    }
    first, second = (text.index(words) for words in points[language])
    assert first < second
    assert text.count("✗") == 1  # and no line for each of five checks
    assert {"en": "4 of 9", "zh": "4 / 9"}[language] not in text
    assert {"en": "3 of 8 checks passed", "zh": "通过 3 / 8 项检查"}[language] in text
    assert "Hint rope." not in text and "提示 rope" not in text


def test_other_systems_get_every_check() -> None:
    hand_in = without_attention(SYNTAX)
    lines = list(check_lines(record(hand_in), hand_in, "en"))
    assert [line.check for line in lines] == list(LAB.checks)
    results = gradescope.results(record(hand_in), hand_in, "en")
    assert "60 points depend on it" in results["output"] and results["score"] == 40


def test_what_could_not_be_read_is_no_step_of_the_student() -> None:
    hand_in = without_attention(OTHERS[0], Outcome.NOT_GRADED)
    page = student_pages.student_markdown(record(hand_in), hand_in, "en")
    assert "someone will decide about the other points" in page and "60 points depend" in page


def test_the_class_is_told_of_files_apart() -> None:
    one = classes.lab(6, 2)
    fine = classes.hand_in(one, 0, lambda s, c: Outcome.PASSED)
    wrong = classes.hand_in(one, 1, lambda s, c: Outcome.FAILED if c == 2 else Outcome.PASSED)
    silent = classes.hand_in(one, 2, lambda s, c: Outcome.CRASHED)
    file = classes.hand_in(one, 3, lambda s, c: Outcome.FAILED)
    file = replace(file, results=tuple(replace(r, message=SYNTAX) for r in file.results))
    unread = classes.hand_in(one, 4, lambda s, c: Outcome.NOT_GRADED)
    unread = replace(unread, results=tuple(replace(r, message=OTHERS[0]) for r in unread.results))
    made = classes.of(one, fine, wrong, silent, file, unread)
    found = survey(made)
    assert (found.failing, found.wrong, found.silent, found.files) == (3, 1, 1, 1)
    glance = ClassSummary(one)
    for each in made.hand_ins:
        glance.take(each)
    rows = dashboard.exercise_rows(one, glance, range(6), "en")
    counted = [(check.passed, check.wrong) for each in rows for check in each.checks]
    assert counted == [(2, 1), (2, 1), (1, 2), (2, 1), (2, 1), (2, 1)]
    text = Elements(classes.page(made)).text
    assert "Files that could not be used (1)" in text and "100 points depend on it" in text
    assert (
        text.index("Who needs you") < text.index("Files that could not") < text.index("passed what")
    )


def test_of_many_such_hand_ins_some_are_named_and_all_are_counted() -> None:
    one, made = classes.lab(60), []
    for number in range(130):
        each = classes.hand_in(one, number, lambda s, c: Outcome.FAILED)
        made.append(replace(each, results=tuple(replace(r, message=SYNTAX) for r in each.results)))
    text = Elements(classes.page(classes.of(one, *made))).text
    assert "Files that could not be used (130)" in text and "106 more: see their reports" in text


def test_statistics_are_of_the_points_that_count() -> None:
    late = Lateness("2026-11-20T12:00:00+08:00", days=2, percent=20)
    glance = ClassSummary(LAB)
    for number in range(3):
        glance.take(replace(ALL_PASSED, student=f"s{number}", lateness=late if number else None))
    assert (glance.median, glance.raw_median, glance.full, glance.deducted) == (80, 100, 1, True)
    assert glance.histogram()[8:] == [(2, 0), (1, 0)] and glance.raw_histogram()[8:] == [0, 3]
    page = classes.page(record(replace(ALL_PASSED, lateness=late)))
    assert "80 <small>100</small>" in page and "100 before lateness" in Elements(page).text
    assert "before lateness" not in classes.page(record(ALL_PASSED))

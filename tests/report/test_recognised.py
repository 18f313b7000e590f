"""What was recognised: in a student's report, as far as feedback goes, and for the class."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import pytest

from autograder.course.records import (
    LANGUAGES,
    Certainty,
    CheckResult,
    ClassRecord,
    Finding,
    HandIn,
    Message,
    Misconception,
    Origin,
    Outcome,
    Student,
    Text,
)
from autograder.report import class_mistakes, escape, student_pages, write
from autograder.report.class_file import whose
from autograder.report.class_mistakes import Mistakes, revealing, survey
from autograder.report.class_summary import look
from autograder.report.table import ClassTable, class_table
from tests.report.test_report import CLASS, LAB, MIXED, Page, outside_code

RENDERERS = [student_pages.student_markdown, student_pages.student_html]


def mistake(name: str, group: str = "RoPE") -> Misconception:
    title, sees, hint = (
        Text(f"{name} {what}", f"{name} {zh}")
        for what, zh in (
            ("mistaken", "弄错了"),
            ("is seen.", "看得到。"),
            ("is hinted at?", "提示？"),
        )
    )
    section = Text(f"About {group}", f"关于 {group}")
    return Misconception(name, group, title, sees, hint, section, "about")


ORDER, SIGN, NORM = mistake("order"), mistake("sign"), mistake("norm", "QK-norm")
NAMED = Finding(("lab2.rope",), Certainty.NAMED, (ORDER,), checks=("rope_angles", "mask"))
PAIR = Finding(("lab2.rope",), Certainty.NAMED, (ORDER, NORM), checks=("rope_angles",))
EITHER = replace(PAIR, misconceptions=(ORDER, SIGN), either=True)
LIKE = replace(NAMED, certainty=Certainty.LOOKS_LIKE)
LIKE_EITHER = replace(EITHER, certainty=Certainty.LOOKS_LIKE)
AGREES = Message("check.value", {"what": "it", "got": 1, "want": "<b>2</b>", "case": "here"})
UNKNOWN = Finding(("lab2.rope",), Certainty.UNKNOWN, known=(AGREES,))
EVERY = (NAMED, PAIR, EITHER, LIKE, LIKE_EITHER, UNKNOWN)


def words(page: str) -> str:
    """What a reader sees of Markdown or HTML, without markup and spaces."""
    text = Page(page).text if page.startswith("<!DOCTYPE") else re.sub(r"[*\\#`]", "", page)
    return re.sub(r"\s", "", text)


def shown(finding: Finding, make: Any, language: str, feedback: str = "name") -> str:
    record = replace(CLASS, lab=replace(LAB, feedback=feedback))
    return words(make(record, replace(MIXED, findings=(finding,)), language))


SAID = {
    "named": (
        NAMED,
        "looks like a known mistake: order mistaken.",
        "已知的错误：order 弄错了。",
    ),
    "pair": (
        PAIR,
        "seem to act together: order mistaken and norm mistaken",
        "，以及norm",
    ),
    "either": (
        EITHER,
        "looks like one of these known mistakes: order mistaken",
        "看起来是以下已知错误之一",
    ),
    "like": (
        LIKE,
        "comes close to a known mistake, but does not match it exactly: order mistaken",
        "不完全吻合",
    ),
    "like either": (
        LIKE_EITHER,
        "comes close to one of these known mistakes, and",
        "无法确定",
    ),
    "unknown": (
        UNKNOWN,
        "matches no known mistake. Here is what is known:",
        "没有匹配到已知的错误",
    ),
}


@pytest.mark.parametrize("make", RENDERERS)
@pytest.mark.parametrize("name", SAID)
def test_a_report_says_what_was_recognised_and_no_more(name: str, make: Any) -> None:
    finding, *said = SAID[name]
    for language, sentence in zip(LANGUAGES, said, strict=True):
        page = shown(finding, make, language)
        assert sentence.replace(" ", "") in page
        for one in finding.misconceptions:
            for text in (one.sees, one.hint, one.section):
                assert text.in_(language).replace(" ", "") in page
        others = ["looks like", "comes close", "act together"]
        if language == "en":
            claimed = [words for words in others if words.replace(" ", "") in page]
            assert claimed == [words for words in others if words in sentence]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", RENDERERS)
def test_feedback_decides_how_much_is_told(make: Any, language: str) -> None:
    for finding in (NAMED, PAIR, EITHER, LIKE):
        texts = {
            what: [
                getattr(one, what).in_(language).replace(" ", "") for one in finding.misconceptions
            ]
            for what in ("name", "sees", "hint", "section")
        }
        told = {"symptom": (), "hint": ("hint", "section"), "name": tuple(texts)}
        for feedback, which in told.items():
            page = shown(finding, make, language, feedback)
            for what, those in texts.items():
                assert [text in page for text in those] == [what in which] * len(those)
    nothing = words(make(CLASS, MIXED, language))
    assert shown(UNKNOWN, make, language, "symptom") == nothing
    assert shown(replace(UNKNOWN, known=()), make, language) == nothing


def test_what_is_not_ours_stays_text() -> None:
    odd = replace(NORM, name=Text("x ** i / d_ <i> a|b `c_d`", "零"))
    hand_in = replace(MIXED, findings=(replace(NAMED, misconceptions=(odd,)), UNKNOWN))
    assert "<b>2</b>" not in student_pages.student_html(CLASS, hand_in, "en")
    text = student_pages.student_markdown(CLASS, hand_in, "en")
    assert "<b>2</b>" not in outside_code(text) and r"**x \*\* i / d\_ \<i\> a\|b `c_d`**." in text
    page = student_pages.student_html(CLASS, hand_in, "en")
    assert "<b>x ** i / d_ &lt;i&gt; a|b <code>c_d</code></b>" in page


@pytest.mark.parametrize("language", LANGUAGES)
def test_exercises_that_another_release_had_keep_their_id(language: str) -> None:
    finding = replace(NAMED, exercises=("lab2.rope", "lab2.gone"), checks=("gone",))
    assert "lab2.gone" in shown(finding, student_pages.student_markdown, language)
    hand_in = replace(MIXED, findings=(finding,))
    assert "gone" in class_mistakes.table(survey(a_class(hand_in)), language)


# The class


def a_class(*hand_ins: HandIn) -> ClassRecord:
    return replace(CLASS, hand_ins=hand_ins)


def student(name: str, *findings: Finding, person: str = "") -> HandIn:
    origin = Origin(students=(Student(person),)) if person else Origin()
    return replace(MIXED, student=name, findings=findings, origin=origin)


PASSED = tuple(CheckResult(check.name, Outcome.PASSED) for check in LAB.checks)
BEGUN = tuple(
    CheckResult(check.name, Outcome.NOT_STARTED, Message("check.not_started", {"todo": "x"}))
    for check in LAB.checks
)
SECOND = Finding(("lab2.rope",), Certainty.NAMED, (ORDER,), checks=("mask",))
PEOPLE = a_class(
    student("ann", LIKE),
    student("bea", NAMED),
    student("bea-2", NAMED, person="BEA"),
    student("cem", SECOND, replace(PAIR, misconceptions=(NORM,))),
    student("dee", PAIR),
    student("eve", UNKNOWN),
    student("fay", EITHER, person="f1"),
    student("fay-2", EITHER, person="F1"),
    HandIn("gil", BEGUN),
    HandIn("hal", PASSED),
)


def rows(record: ClassRecord, language: str = "en") -> list[dict[str, str]]:
    table = class_mistakes.table(survey(record), language)
    return list(csv.DictReader(io.StringIO(table)))


def test_mistakes_are_counted_by_person_the_most_frequent_first() -> None:
    found = [(row["misconception"], row["students"], row["count"]) for row in rows(PEOPLE)]
    assert found == [
        ("order mistaken", "bea; cem; dee", "3"),
        ("norm mistaken", "cem; dee", "2"),
        ("one of: order mistaken; sign mistaken", "fay", "1"),
        ("looks like: order mistaken", "ann", "1"),
    ]


def test_the_check_that_revealed_it_most_often_stands_first() -> None:
    found = survey(PEOPLE)
    order = found.mistakes[0]
    assert order.checks == {"rope_angles": 2, "mask": 2}
    assert revealing(LAB, order) == ("rope_angles", "mask")  # equally often: as in the lab
    often = survey(a_class(*PEOPLE.hand_ins, student("ian", SECOND)))
    assert revealing(LAB, often.mistakes[0]) == ("mask", "rope_angles")
    (row,) = [row for row in rows(PEOPLE) if row["misconception"] == "norm mistaken"]
    assert (row["check"], row["group"], row["section"]) == (
        "rope_angles x",
        "QK-norm",
        "About QK-norm",
    )
    assert rows(PEOPLE)[0]["check"] == "rope_angles x (and 1 more)"


def test_what_was_not_recognised_is_counted() -> None:
    found = survey(PEOPLE)
    assert (found.failing, found.wrong, found.silent) == (7, 1, 1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_terminal_shows_ten_in_a_hundred_columns(language: str) -> None:
    many = [
        student(
            f"student-{n}-{m}", replace(NAMED, misconceptions=(mistake(f"m{n:02} " + "长w" * 40),))
        )
        for n in range(13)
        for m in range(n + 1)
    ]
    lines = class_mistakes.lines(survey(a_class(*many)), language)
    assert max(map(escape.width, lines)) <= 100
    told = [line for line in lines if re.match(r" +\d+ m\d\d ", line)]
    assert [line.split()[:2] for line in told] == [
        [str(n + 1), f"m{n:02}"] for n in range(12, 2, -1)
    ]
    assert any(re.search(r"\b3\b.*misconceptions\.md", line) for line in lines)
    assert class_mistakes.lines(survey(a_class(HandIn("hal", PASSED))), language) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_files_hold_everybody_and_nothing_that_runs(tmp_path: Path, language: str) -> None:
    odd = ["=1+1", "a|b", "<img src=x>", "@evil", "王伟"]
    many = [f"student-{number:04}" for number in range(300)]
    hand_ins = [student(name, NAMED) for name in odd + many]
    record, overview = a_class(*hand_ins), write.Overview(LAB)
    look(record.hand_ins, [overview])
    overview.write(record, tmp_path, language)
    text = (tmp_path / "misconceptions.md").read_text(encoding="utf-8")
    (row,) = csv.DictReader((tmp_path / "misconceptions.csv").open(encoding="utf-8"))
    assert all(name in row["students"] and name in text for name in many)
    assert row["students"].startswith("'=1+1; ") and row["count"] == str(len(hand_ins))
    bare = outside_code(text)
    assert "<img" not in bare and "@evil" not in bare and "王伟" in bare
    (line,) = [line for line in text.splitlines() if line.startswith("| 305 ")]
    assert len(re.findall(r"(?<!\\)\|", line)) == 6


class Once(Sequence[HandIn]):
    """Hand-ins that may be looked at in order, one at a time, and once."""

    def __init__(self, hand_ins: Sequence[HandIn]) -> None:
        self._hand_ins = hand_ins
        self.left = list(hand_ins)

    def __len__(self) -> int:
        raise AssertionError

    @overload
    def __getitem__(self, index: int) -> HandIn: ...
    @overload
    def __getitem__(self, index: slice) -> list[HandIn]: ...
    def __getitem__(self, index: int | slice) -> HandIn | list[HandIn]:
        raise AssertionError

    def __iter__(self) -> Iterator[HandIn]:
        while self.left:
            yield self.left.pop(0)


def test_a_large_class_is_read_once_one_by_one(tmp_path: Path) -> None:
    once = replace(PEOPLE, hand_ins=Once(PEOPLE.hand_ins))
    mistakes, table = Mistakes(PEOPLE.lab), ClassTable(PEOPLE.lab, "en")
    reports = write.Reports(once, tmp_path / "once", "en")
    write.class_files(once, tmp_path / "once", [mistakes, table, reports])
    assert mistakes.survey() == survey(PEOPLE)
    assert table.text(PEOPLE.isolation, PEOPLE.missing) == class_table(PEOPLE, "en")
    for hand_in in PEOPLE.hand_ins:
        write.student_reports(PEOPLE, hand_in, tmp_path / "each", "en")
    write.class_files(PEOPLE, tmp_path / "each")
    files = {path.relative_to(tmp_path / "each") for path in (tmp_path / "each").rglob("*.*")}
    assert len(files) == 2 + 2 * len(PEOPLE.hand_ins)
    for path in files:
        assert (tmp_path / "once" / path).read_bytes() == (tmp_path / "each" / path).read_bytes()


@pytest.mark.parametrize("indent", [None, 1])
def test_whose_a_class_is_can_be_told(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "class.json"
    expected = PEOPLE.lab.name, {hand_in.student for hand_in in PEOPLE.hand_ins}
    write.class_files(PEOPLE, tmp_path)
    assert whose(path) == expected
    text = path.read_text(encoding="utf-8")
    path.write_text(json.dumps(json.loads(text), indent=indent), encoding="utf-8")
    assert whose(path) == expected  # as an editor may have left it
    for broken in (text[:-4], text[: len(text) // 2], text.replace("student", "x"), "", "[]", "1"):
        path.write_text(broken, encoding="utf-8")
        with pytest.raises((ValueError, LookupError, TypeError)):
            whose(path)
    write.class_files(replace(PEOPLE, hand_ins=()), tmp_path)
    assert whose(path) == (PEOPLE.lab.name, set())


def test_what_breaks_off_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    write.class_files(PEOPLE, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fewer = replace(PEOPLE, hand_ins=PEOPLE.hand_ins[:1])
    with pytest.raises(AssertionError, match="in the middle"):
        write.class_files(fewer, tmp_path, [Breaks()])
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


class Breaks:
    def take(self, hand_in: HandIn) -> None:
        raise AssertionError("in the middle")

"""The page of a class: what it says, how large it is, and that no student writes into it."""

from __future__ import annotations

import base64
import hashlib
import re
import tracemalloc
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course.late import Lateness
from autograder.course.records import (
    LANGUAGES,
    CheckResult,
    HandIn,
    Message,
    Origin,
    Outcome,
    Override,
    Student,
)
from autograder.report import class_summary, dashboard
from autograder.report.class_summary import CELLS, ClassSummary
from autograder.report.view import GLYPHS
from autograder.report.write import OVERVIEW, class_files
from tests.report import classes
from tests.report.test_report import CLASS, LAB, MIXED, record

LIMIT = 200_000  # bytes, for 60 students and 60 checks
PASSED, FAILED = Outcome.PASSED, Outcome.FAILED


class Elements(HTMLParser):
    """Every tag with its attributes, and the text outside style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str]]] = []
        self._within = ""
        self._texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        self.all.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within not in ("style", "script"):
            self._texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def having(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.all if name in attributes]


# ---------------------------------------------------------------- what it says


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_class_comes_first_and_everything_is_there(language: str) -> None:
    page = classes.page(classes.typical(), language)
    heads = {
        "en": ("How did it go?", "What to teach again", "Who needs you", "Who passed what"),
        "zh": ("总体情况", "建议重讲", "需要你处理的提交", "谁通过了什么"),
    }[language]
    places = [page.index(f">{head}<") for head in heads]
    assert places == sorted(places)
    text = Elements(page).text
    for glyph in GLYPHS.values():
        assert glyph in text
    assert "{" not in re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    assert ("王伟0" in text) and "Nobody Here" in text


def test_numbers_are_those_of_the_class() -> None:
    one = classes.lab(4, 2)
    outcomes = {0: (PASSED,) * 4, 1: (PASSED, PASSED, FAILED, Outcome.SKIPPED)}
    outcomes[2] = (Outcome.NOT_GRADED, PASSED, FAILED, FAILED)
    glance = ClassSummary(one)
    for number in outcomes:
        glance.take(classes.hand_in(one, number, lambda n, check: outcomes[n][check]))
    assert (glance.count, glance.full, glance.human, glance.median) == (3, 1, 1, 75)
    assert glance.passed("test_0") == (2, 2) and glance.passed("test_2") == (1, 3)
    bins = glance.histogram()
    assert (bins[2], bins[5], bins[9]) == ((0, 1), (1, 0), (1, 0))
    assert sum(map(sum, bins)) == 3


@pytest.mark.parametrize("earned", [[], [7], [1, 3], [0, 0, 100], [5, 1, 9, 2]])
def test_the_median_is_that_of_statistics(earned: list[int]) -> None:
    import statistics

    glance = ClassSummary(LAB)
    glance.final.update(earned)
    glance.count = len(earned)
    assert glance.median == (statistics.median(earned) if earned else 0)


def test_late_is_what_the_course_says_and_its_cost_is_told() -> None:
    late = replace(MIXED, lateness=Lateness("2026-11-20T12:00:00+08:00", days=2, percent=20))
    page = classes.page(record(late, replace(MIXED, student="in_time")))
    assert "late −4" in Elements(page).text and "1 late" in Elements(page).text


def test_an_empty_class_has_a_page() -> None:
    assert "There are no hand-ins yet." in classes.page(record())


def test_reasons_stand_in_the_page_once_and_cells_lead_to_them() -> None:
    page = classes.page(record(MIXED, replace(MIXED, student="twin")))
    elements = Elements(page)
    ids, links = elements.having("id"), elements.having("href")
    assert len(set(ids)) == len(ids)
    assert all(link[1:] in ids for link in links if link.startswith("#"))
    assert page.count("the process running your code ended: ") == 1


def test_a_hidden_case_shows_no_data() -> None:
    assert "SECRET" not in classes.page(CLASS)


def test_a_decision_of_a_person_is_marked_and_told() -> None:
    decided = replace(MIXED, overrides=(Override(MIXED.student, "gqa", 7, "right idea", "Dr. Li"),))
    page = classes.page(record(decided))
    assert 'class="d c"' in page and "decided" in page and "<i>right idea</i>" in page


def test_optional_checks_that_nearly_nobody_was_asked_are_no_columns() -> None:
    assert "real x" not in Elements(classes.page(CLASS)).text
    whole = [CheckResult(check.name, PASSED) for check in LAB.checks]
    graded = HandIn("a", tuple(whole))
    assert "real <code>x</code>" in classes.page(record(graded))


# ---------------------------------------------------------------- size, memory


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "reason",
    [
        lambda student, check: "the same",
        lambda student, check: f"{check} of all",
        lambda student, check: f"{student} {check} " + "long 长 " * 80,
    ],
    ids=["one", "per_check", "all_differ"],
)
def test_sixty_by_sixty_stay_below_200_kb(reason: object, language: str) -> None:
    one = classes.lab()
    made = [
        replace(
            classes.hand_in(one, n, lambda s, c: FAILED, reason, name="很长的名字" * 3),  # type: ignore[arg-type]
            marks=(Message("check.forbidden", {"file": "x" * 600, "line": 1, "name": "y" * 600}),),
        )
        for n in range(60)
    ]
    page = classes.page(classes.of(one, *made), language)
    assert len(page.encode()) < LIMIT
    assert page.count("<tr data-place") == 60
    assert len(classes.page(classes.typical(), language).encode()) < LIMIT


def test_a_reason_without_room_is_left_out_and_said() -> None:
    one = classes.lab()
    made = [
        classes.hand_in(one, n, lambda s, c: FAILED, lambda s, c: f"{s}-{c} " + "z" * 200)
        for n in range(60)
    ]
    page = classes.page(classes.of(one, *made))
    kept = page.count("<li id=f")
    assert 0 < kept * 200 < dashboard.REASONS
    said = f"{3600 - kept} rarer reasons are only in the students' reports."
    assert said in Elements(page).text


def test_of_a_large_class_the_map_shows_who_needs_somebody() -> None:
    one = classes.lab()
    limit = CELLS // 60
    made = [
        replace(classes.hand_in(one, n, classes.mixed), marks=(Message("check.unread"),) * (n == 3))
        for n in range(limit * 2)
    ]
    needed = sum(
        bool(each.marks) or any(r.outcome is Outcome.NOT_GRADED for r in each.results)
        for each in made
    )
    page = classes.page(classes.of(one, *made))
    shown = min(needed, limit)
    assert page.count("<tr data-place") == shown
    assert f"This class has {limit * 2} hand-ins" in page and f"here are {shown} of those" in page
    assert f"<b>{limit * 2}</b>" in page and f"<b>{needed}</b>" in page
    assert len(page.encode()) < 2 * LIMIT


@pytest.mark.slow
def test_memory_does_not_grow_with_the_class() -> None:
    one = classes.lab()

    def held(size: int) -> int:
        glance = ClassSummary(one)
        tracemalloc.start()
        for number in range(size):
            glance.take(classes.hand_in(one, number, classes.mixed))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held

    assert held(900) < 1.2 * held(300)


# ---------------------------------------------------------------- one file, nothing from outside


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_comes_from_outside(language: str) -> None:
    page = classes.page(classes.typical(), language)
    elements = Elements(page)
    assert (
        "http:" not in page
        and "https:" not in page
        and "//" not in "".join(elements.having("href") + elements.having("src"))
    )
    assert not {"img", "link", "iframe", "object", "form", "base"} & {t for t, _ in elements.all}
    assert not [name for _, attributes in elements.all for name in attributes if name[:2] == "on"]
    assert not elements.having("style")


def test_the_policy_allows_this_style_and_these_scripts_only() -> None:
    page = classes.page(classes.typical())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and "unsafe" not in policy[1] and "default-src 'none'" in policy[1]
    found = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", page, flags=re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in found]
    assert [f"sha256-{one}" for one in hashes] == re.findall(r"sha256-[^']+", policy[1])
    assert len(hashes) == 3


# ---------------------------------------------------------------- hostile text


@pytest.mark.parametrize("text", classes.HOSTILE)
def test_no_student_writes_into_the_page(text: str) -> None:
    calm, spoiled = (
        classes.page(record(_with_text(one, number), _with_text(one, number + 1)))
        for number, one in ((1, "harmless"), (3, text))
    )
    tags = [tag for tag, _ in Elements(calm).all]
    assert [tag for tag, _ in Elements(spoiled).all] == tags
    names = [list(attributes) for _, attributes in Elements(calm).all]
    assert [list(attributes) for _, attributes in Elements(spoiled).all] == names
    for link in Elements(spoiled).having("href"):
        assert re.fullmatch(r"#who|#[a-z]\d+|[\w.~%-]+/report\.html", link)


def _with_text(text: str, number: int) -> HandIn:
    """A hand-in that says ``text`` wherever a student, or their course system, can."""
    message = Message("check.exception", {"type": text, "text": text, "case": text})
    mark = Message("check.forbidden", {"file": text, "line": 1, "name": text})
    origin = Origin(name=text, students=(Student(text, text, text),), late=True)
    return HandIn(
        f"{text}{number}",
        (CheckResult("norm", FAILED, message),),
        marks=(mark,),
        digests={text: text},
        origin=origin,
        overrides=(Override(text, "gqa", 1, text, text),),
    )


def test_what_a_student_wrote_can_be_covered_and_the_rest_is_told() -> None:
    case = {"en": "a batch of 2", "zh": "批大小 2"}
    values = {"type": "ValueError", "text": "I am Alice", "case": case}
    told = class_summary.private(Message("check.exception", values), "en", ())
    page = str(class_summary.marked_up(told))
    assert page == (
        "your code raised <b>…</b><i>ValueError</i>: <b>…</b><i>I am Alice</i> (a batch of 2)."
    )
    shape = Message("check.shape", {"what": case, "got": (2, 3), "want": (3, 2), "case": case})
    assert "<i>" not in class_summary.marked_up(class_summary.private(shape, "en", ()))
    file = Message("check.syntax", {"file": "attention.py", "text": "<x>", "line": 3})
    covered = str(class_summary.marked_up(class_summary.private(file, "en", {"attention.py"})))
    assert covered.startswith("attention.py cannot") and "<i>&lt;x&gt;</i>" in covered


def test_no_number_is_cut_in_its_middle() -> None:
    start = "x" * (class_summary.LENGTH - 8)
    assert class_summary._cut(f"{start} 0.0343017 more") == f"{start} …"
    assert class_summary._cut(f"{start} 1 word more") == f"{start} 1 word…"


def test_a_sentence_that_is_cut_stays_whole_as_markup() -> None:
    for length in range(150, 260):
        values = {"type": "x" * length, "text": "y" * 50, "case": {"en": "a", "zh": "b"}}
        told = class_summary.private(Message("check.exception", values), "en", ())
        page = str(class_summary.marked_up(told))
        assert page.count("<i>") == page.count("</i>") == page.count("<b>")
        assert not {"\x01", "\x02"} & set(page)


def test_numbers_for_names_follow_no_alphabet() -> None:
    glance = ClassSummary(classes.lab(6))
    for number in range(40):
        glance.take(classes.hand_in(glance.lab, number, classes.mixed))
    numbers = _numbers(glance)
    assert sorted(numbers) == list(range(1, 41)) and numbers != sorted(numbers)
    other = ClassSummary(glance.lab)
    for number in range(40):  # other files, other order: a name does not tell the number
        record = classes.hand_in(glance.lab, number, classes.mixed)
        other.take(replace(record, digests={"attention.py": f"other {number}"}))
    assert _numbers(other) != numbers


def _numbers(glance: ClassSummary) -> list[int]:
    """In the order of ``class.json``."""
    return [glance.numbers()[person.student] for person in glance.people]


# ---------------------------------------------------------------- where it is written


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_writes_it_in_the_language_of_the_run(
    tmp_path: Path, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class_files(CLASS, tmp_path)
    assert main(["report", str(tmp_path), "--lang", language]) == 0
    assert OVERVIEW[0] == "dashboard.html"
    page = (tmp_path / "dashboard.html").read_text(encoding="utf-8")
    assert {"en": "The class at a glance", "zh": "全班概览"}[language] in page
    assert f'<html lang="{({"zh": "zh-CN"}).get(language, "en")}">' in page

"""Reports say what the record says, in both languages, and student text stays text."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import pytest

from autograder.course.atomic import write_atomic
from autograder.course.messages import catalogue
from autograder.course.records import (
    FAMILIES,
    LANGUAGES,
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    Frame,
    HandIn,
    Isolation,
    Lab,
    Limits,
    Message,
    Outcome,
    Override,
    Text,
)
from autograder.report import escape, student_pages, terminal, view, write
from autograder.report.class_file import SCHEMA, from_json, to_json
from autograder.report.table import class_table
from autograder.report.write import class_files, student_reports

CASE = {"en": "batch of 2", "zh": "批大小 2"}
MISMATCH = Message(
    "check.mismatch",
    {
        "what": {"en": "the output", "zh": "输出"},
        "error": 0.25,
        "limit": 1e-5,
        "case": CASE,
        "place": (0, 3, 1),
        "got": 1.5,
        "want": float("-inf"),
    },
)
RESULTS = {
    "norm": CheckResult("norm", Outcome.PASSED),
    "rope_angles": CheckResult(
        "rope_angles",
        Outcome.FAILED,
        MISMATCH,
        case="batch of 2",
        prints="q is tensor(3.)\n",
        frames=(Frame("attention.py", 12, "forward", "return q @ k"),),
    ),
    "rope_shift": CheckResult(
        "rope_shift", Outcome.SKIPPED, Message("check.needs", {"check": "RoPE angles"})
    ),
    "mask": CheckResult(
        "mask",
        Outcome.FAILED,
        MISMATCH,
        hidden=True,
        case="SECRETCASE",
        prints="SECRETPRINT",
        frames=(Frame("attention.py", 9, "SECRETFRAME", "x"),),
    ),
    "gqa": CheckResult(
        "gqa", Outcome.CRASHED, Message("check.crashed", {"text": "signal 11", "case": CASE})
    ),
    "mlp_out": CheckResult(
        "mlp_out",
        Outcome.TIMED_OUT,
        Message("check.timed_out", {"seconds": 2, "clock": "CPU", "case": CASE}),
    ),
    "mlp_grad": CheckResult(
        "mlp_grad", Outcome.NOT_STARTED, Message("check.not_started", {"todo": "lab2.mlp"})
    ),
    "parity": CheckResult(
        "parity", Outcome.NOT_GRADED, Message("check.grader_fault", {"text": "no memory"})
    ),
    "real": CheckResult("real", Outcome.NOT_GRADED, Message("check.no_weights")),
}


def check(name: str, exercise: str, family: str, points: int, **more: Any) -> Check:
    return Check(name, exercise, family, points, Text(f"{name} `x`", f"{name} 检查"), **more)


def exercise(name: str, file: str, *checks: Check) -> Exercise:
    title, hint = (
        Text(f"The {name} | part", f"{name} 部分"),
        Text(f"Hint {name}.", f"提示 {name}。"),
    )
    return Exercise(f"lab2.{name}", file, title, hint, checks)


LAB = Lab(
    name="lab2_qwen3_block",
    folder=Path("lab2_qwen3_block"),
    title=Text("The Qwen3 block", "Qwen3 模块"),
    files=("attention.py", "mlp.py"),
    given=("labs.given.config",),
    forbidden=("torch.nn.MultiheadAttention",),
    limits=Limits(cpu_seconds=3.5),
    exercises=(
        exercise("norm", "attention.py", check("norm", "lab2.norm", "QK-norm", 20)),
        exercise(
            "rope",
            "attention.py",
            check("rope_angles", "lab2.rope", "RoPE", 10),
            check("rope_shift", "lab2.rope", "RoPE", 10, needs=("rope_angles",), fresh=True),
            check("mask", "lab2.rope", "causal mask", 10),
            check("gqa", "lab2.rope", "GQA", 10),
        ),
        exercise(
            "mlp",
            "mlp.py",
            check("mlp_out", "lab2.mlp", "MLP", 10),
            check("mlp_grad", "lab2.mlp", "MLP", 10),
            check("parity", "lab2.mlp", "numeric parity", 20),
            check("real", "lab2.mlp", "numeric parity", 0, optional=True),
        ),
    ),
)
FORBIDDEN = Message(
    "check.forbidden", {"file": "attention.py", "line": 3, "name": "nn.MultiheadAttention"}
)
MIXED = HandIn(
    "li_wei",
    tuple(RESULTS.values()),
    notes=(Message("intake.gbk", {"file": "mlp.py"}),),
    marks=(FORBIDDEN,),
    digests={"mlp.py": "ab12"},
)
ALL_PASSED = HandIn("王伟", tuple(CheckResult(one.name, Outcome.PASSED) for one in LAB.checks))


def record(*hand_ins: HandIn) -> ClassRecord:
    return ClassRecord(
        lab=LAB,
        isolation=Isolation("strong", ("rlimits", "landlock", "seccomp"), "fork"),
        versions={"python": "3.11.7", "torch": "2.13.0"},
        hand_ins=hand_ins,
        hidden_cases=37,
        public_cases=12,
    )


CLASS = record(MIXED, ALL_PASSED)


def with_text(text: str) -> HandIn:
    """A hand-in whose every field that a student can reach holds ``text``."""
    message = Message("check.exception", {"type": text, "text": text, "case": text})
    spoiled = CheckResult(
        "norm",
        Outcome.FAILED,
        message,
        case=text,
        prints=f"{text}\n{text}",
        frames=(Frame(text, 1, text, text),),
    )
    note = Message("intake.renamed", {"given": text, "used": text})
    mark = Message("check.forbidden", {"file": text, "line": 1, "name": text})
    return HandIn(text, (spoiled,), notes=(note,), marks=(mark,), digests={text: text})


class Page(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


# What a report says


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_every_outcome_is_shown_with_glyph_word_and_reason(make: Any, language: str) -> None:
    page = make(CLASS, MIXED, language)
    for outcome in Outcome:
        assert view.GLYPHS[outcome] in page
        assert catalogue()[f"outcome.{outcome.value}"].in_(language) in page
    for result in MIXED.results:
        if result.message is not None and not result.hidden:
            reason = catalogue()[result.message.key].in_(language)
            longest = max(re.split(r"\{[^}]*\}", reason), key=len)
            assert longest.replace("'", "&#39;") in page or longest in page
    assert catalogue()["check.hidden"].in_(language)[:30] in page


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_undecided_points_are_said_and_not_counted(make: Any, language: str) -> None:
    page = make(CLASS, MIXED, language)
    expected = {
        "en": "20 of 80 gradable, 20 to be decided",
        "zh": "可评分部分得 20 / 80 分，另有 20 分待定",
    }
    assert expected[language] in page
    whole = make(CLASS, ALL_PASSED, language)
    assert {"en": "100 of 100 points", "zh": "100 / 100 分"}[language] in whole
    assert {"en": "to be decided", "zh": "待定"}[language] not in whole


@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_a_check_without_a_result_is_to_be_decided(make: Any) -> None:
    page = make(CLASS, HandIn("new", ()), "en")
    assert "0 of 0 gradable, 100 to be decided" in page
    assert "no record of this check" in page


@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_hints_stand_where_the_work_did_not_pass(make: Any) -> None:
    page = make(CLASS, MIXED, "en")
    assert "Hint norm." not in page
    # Once: the one of the next step is not said again at its exercise.
    assert page.count("Hint rope.") == page.count("Hint mlp.") == 1
    ours = [replace(RESULTS["norm"], outcome=Outcome.NOT_GRADED)]
    assert "Hint norm." not in make(CLASS, replace(MIXED, results=tuple(ours)), "en")


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CRASHED, Outcome.SKIPPED])
def test_a_public_failure_is_told_before_a_hidden_one(outcome: Outcome) -> None:
    hidden = CheckResult("rope_angles", Outcome.FAILED, Message("check.hidden"), hidden=True)
    said = replace(RESULTS["gqa"], outcome=outcome, message=MISMATCH)
    passed = {one.check: one for one in ALL_PASSED.results}
    results = passed | {name: RESULTS[name] for name in ("rope_shift", "mask")}
    results |= {"rope_angles": hidden, "gqa": said}
    hand_in = HandIn("li", tuple(results.values()))
    step = student_pages.student_markdown(CLASS, hand_in, "en").split("\n## ")[1]
    (row,) = (row for row in view.rows_of(record(hand_in), list(results)) if row.missed)
    public = outcome is not Outcome.SKIPPED
    assert ("1.5" in step, "hidden case" in step) == (public, not public)
    assert "40 points" in step
    assert row.reason == (said if public else hidden).message
    assert {check.name for check, _ in row.missed} == {"rope_angles", "rope_shift", "mask", "gqa"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_a_hidden_case_shows_no_data(make: Any, language: str) -> None:
    page = make(CLASS, MIXED, language)
    assert "SECRET" not in page
    for outcome in Outcome:
        message = Message("check.grader_fault", {"text": "SECRETVALUE"})
        result = replace(RESULTS["mask"], outcome=outcome, message=message)
        if outcome is not Outcome.SKIPPED:
            assert "SECRET" not in make(CLASS, replace(MIXED, results=(result,)), language)


@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_a_public_case_shows_traceback_and_both_ends_of_the_prints(make: Any) -> None:
    prints = "".join(f"line {number}\n" for number in range(100))
    failed = replace(RESULTS["rope_angles"], prints=prints)
    page = make(CLASS, replace(MIXED, results=(failed,)), "en")
    assert "attention.py" in page
    assert ", line 12, in forward" in page
    assert "return q @ k" in page
    assert "line 99" in page and "line 0\n" in page
    assert "line 85\n" in page and "line 13\n" in page
    assert "line 84\n" not in page and "line 14\n" not in page


@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_isolation_versions_cases_and_totals(make: Any) -> None:
    page = make(CLASS, MIXED, "en")
    for text in ("strong", "rlimits, landlock, seccomp", "fork", "torch 2.13.0", "37 hidden"):
        assert text in page
    weak = replace(CLASS, isolation=Isolation("none", (), "spawn"))
    assert "layers: none" in make(weak, MIXED, "en")


def test_points_per_exercise_and_per_family() -> None:
    text = student_pages.student_markdown(CLASS, MIXED, "en")
    assert "### The norm \\| part · 20 of 20 points" in text
    assert "### The rope \\| part · 0 of 40 points" in text
    assert "### The mlp \\| part · 0 of 20 gradable, 20 to be decided" in text
    assert "| QK-norm | 20 of 20 points |" in text
    assert "| Numeric parity | 0 of 0 gradable, 20 to be decided |" in text


def test_every_family_has_a_name_in_both_languages() -> None:
    for family in FAMILIES:
        assert view.family_name(family, "en").lower() == family.lower()
        assert view.family_name(family, "zh") in {
            text.zh for key, text in catalogue().items() if key.startswith("report.family_")
        }
    assert view.family_name("something new", "zh") == "something new"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_of_another_release_is_said_to_be_so(language: str) -> None:
    for odd in (Message("check.no_such_key"), Message("check.shape", {"got": 1})):
        failed = replace(RESULTS["rope_angles"], message=odd)
        page = student_pages.student_markdown(CLASS, replace(MIXED, results=(failed,)), language)
        assert odd.key.split(".")[1] in page


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
def test_what_a_person_decided_is_no_work_of_the_checks(make: Any, language: str) -> None:
    everything = {"en": "every check passed", "zh": "所有检查都已通过"}[language]
    decided = {"en": "someone has decided points", "zh": "部分分数已由人工决定"}[language]
    assert everything in make(CLASS, ALL_PASSED, language)
    for override, told in (
        (Override("w", "norm", 18, "copied", "Dr. Li"), "copied"),
        (Override("w", "", 98, "by word of mouth", "Dr. Li"), "by word of mouth"),
        (Override("w", "", None, "a rude comment", "Dr. Li", bonus=-2), "a rude comment"),
        (Override("w", "", 38, "half done", "Dr. Li", exercise="lab2.rope"), "half done"),
    ):
        hand_in = replace(ALL_PASSED, overrides=(override,))
        page = make(record(hand_in), hand_in, language)
        assert told in page and everything not in page and decided in page
        assert {"en": "98 of 100 points", "zh": "98 / 100 分"}[language] in page
    # A full score by decision of a person, though checks did not pass.
    full = replace(MIXED, overrides=(Override("li_wei", "", 100, "seen on paper", "Dr. Li"),))
    page = make(record(full), full, language)
    assert decided in page and everything not in page
    assert {"en": "1 of 8 checks passed", "zh": "通过 1 / 8 项检查"}[language] in page
    seen = replace(MIXED, overrides=(Override("x", "", None, "r", "b", looked_at=True),))
    page = make(record(seen), seen, language)
    assert {"en": "Someone has looked at this", "zh": "已由人工查看"}[language] in page
    assert {"en": "Someone will look at this", "zh": "将由人工查看<"}[language] not in page


# HTML


def test_html_stands_alone() -> None:
    for language in LANGUAGES:
        page = student_pages.student_html(CLASS, MIXED, language)
        assert not re.search(r"https?:|//[a-z]|@import|url\(", page)
        parsed = Page(page)
        assert not {"script", "link", "img", "iframe", "a", "object"} & set(parsed.tags)
        assert not {"src", "href"} & set(parsed.attributes)
        assert "prefers-color-scheme: dark" in page
        assert "default-src 'none'" in page
    assert '<html lang="zh-CN">' in page


def test_html_closes_what_it_opens() -> None:
    page = Page(student_pages.student_html(CLASS, MIXED, "en"))
    source = student_pages.student_html(CLASS, MIXED, "en")
    for tag in set(page.tags) - {"meta"}:
        assert source.count(f"</{tag}>") == page.tags.count(tag), tag


HTML_ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details><a href='javascript:alert(1)'>x</a>",
    "</style><script>x</script>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
]


@pytest.mark.parametrize("attack", HTML_ATTACKS)
def test_html_shows_student_text_as_text(attack: str) -> None:
    hand_in = with_text(attack)
    harmless = Page(student_pages.student_html(record(hand_in), with_text("harmless"), "en"))
    page = Page(student_pages.student_html(record(hand_in), hand_in, "en"))
    assert page.tags == harmless.tags
    assert page.attributes == harmless.attributes
    assert page.text.count(attack) >= 8  # name (twice), note, mark, reason, trace, prints


def test_course_text_may_hold_code_but_no_html() -> None:
    lab = replace(LAB, title=Text("Use `x` & <b>", "用 `x`"))
    page = student_pages.student_html(replace(CLASS, lab=lab), MIXED, "en")
    assert "Use <code>x</code> &amp; &lt;b&gt;" in page


def test_a_missing_value_is_an_error() -> None:
    template = student_pages.environment().get_template("student.html.j2")
    complete = student_pages.context(CLASS, MIXED, "en")
    assert template.render(complete)
    for name in complete:
        missing = {key: value for key, value in complete.items() if key != name}
        with pytest.raises(jinja2.UndefinedError, match=name):
            template.render(missing)


# Markdown


def outside_code(text: str) -> str:
    """What a CommonMark reader would parse: fences and code spans taken out."""
    kept, fence = [], ""
    for each in text.split("\n"):
        run = re.match(r" *(`{3,})", each)
        if not fence and run:
            fence = run[1]
        elif fence:
            closing = re.fullmatch(r" *(`{3,}) *", each)
            if closing and len(closing[1]) >= len(fence):
                fence = ""
        else:
            kept.append(each)
    assert not fence
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", "\n".join(kept))


MARKDOWN_ATTACKS = [
    "[x](http://evil.example)",
    "![x](http://evil.example/pixel.png)",
    "<img src=evil onerror=alert(1)>",
    "see http://evil.example now",
    "see WWW.evil.example now",
    "a@evil.example",
    "``` \n<b>evil</b>\n```",
    "`````\n# evil\n`````",
    "`a` <b>evil</b> `",
    "|evil|\n|---|",
    "evil\n\n# evil",
    "evil\r\rx\u2028# evil",
    "``\x00` <b>evil</b>",
    "&#60;evil&#62;",
    "_evil_ **evil** ~~evil~~",
    "[evil]: http://evil.example",
    "@evil #1 $evil$",
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("attack", MARKDOWN_ATTACKS)
def test_markdown_shows_student_text_as_code(attack: str, language: str) -> None:
    hand_in = with_text(attack)
    text = student_pages.student_markdown(record(hand_in), hand_in, language)
    assert "evil" in text
    bare = outside_code(text)
    assert not re.search(r"\bhttp|www\.|<|\]\(|@|&#|evil[_*~$]", bare, re.IGNORECASE)
    headings = [each for each in bare.split("\n") if each.startswith("#")]
    fine = outside_code(
        student_pages.student_markdown(record(hand_in), with_text("fine"), language)
    )
    assert len(headings) == len([each for each in fine.split("\n") if each.startswith("#")])
    assert bare.count("|") == fine.count("|")


def test_harmless_words_stay_words() -> None:
    for text in ("the output", "[2, 3]", "head_dim", "王伟", "x = 1; (a, b)"):
        assert escape.markdown(text) == (f"`{text}`" if "[" in text else text)


# Terminal


def test_the_table_fits_and_lines_up() -> None:
    long = replace(MIXED, student="很长的名字" * 10)
    for language in LANGUAGES:
        table = class_table(record(MIXED, ALL_PASSED, long), language)
        lines = table.split("\n")
        assert max(escape.width(each) for each in lines) <= 100
        total = catalogue()["report.total"].in_(language)
        cells = (total, " 100", " 20?", " 100", " 20?")  # head, best, three students
        ends = set()
        for each, cell in zip(lines[:2] + lines[3:6], cells, strict=True):
            ends.add(escape.width(each[: each.index(cell) + len(cell)]))
        assert len(ends) == 1


def test_the_table_says_points_and_what_to_look_at() -> None:
    table = class_table(CLASS, "en")
    mixed, whole = table.split("\n")[3:5]
    assert mixed.split()[:5] == ["li_wei", "20?", "20", "0", "0?"]
    assert "for a human; failed (1 of 7): “rope_angles" in mixed
    assert whole.split() == ["王伟", "100", "20", "40", "40"]
    assert "lab2.rope" in table
    assert "hand-ins: 2, for a human: 1; isolation: strong" in table
    assert class_table(record(), "en") == "no hand-ins"


def test_many_exercises_still_fit() -> None:
    many = tuple(
        exercise(f"part{index}", "mlp.py", check(f"c{index}", f"lab2.part{index}", "MLP", 5))
        for index in range(40)
    )
    table = class_table(replace(record(MIXED), lab=replace(LAB, exercises=many)), "en")
    assert max(escape.width(each) for each in table.split("\n")) <= 100


@pytest.mark.parametrize(
    "attack",
    ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07x", "a\rb\x08\x7f", "\u202eevil", "\x9b31m", "a\nb"],
)
def test_the_terminal_gets_no_controls(attack: str) -> None:
    table = class_table(record(with_text(attack)), "en")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", table)
    assert len(table.split("\n")) == len(class_table(record(MIXED), "en").split("\n"))


def test_colours_are_taken_out_whole() -> None:
    assert escape.line("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link") == "red link"


# CSV


def rows_of(made: ClassRecord) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(write.scores(made))))


def test_csv_columns_and_values() -> None:
    text = write.scores(CLASS)
    assert text.split("\n")[0] == (
        "assignment,duedate,timestamp,student_id,last_name,first_name,email,raw_score,"
        "late_submission_penalty,score,max_score,lab2.norm,lab2.rope,lab2.mlp,status,late,attempt,"
        "sids,students,emails,decided_by,days_late"
    )
    mixed, whole = rows_of(CLASS)
    assert mixed["status"] == "to be decided"
    assert (mixed["raw_score"], mixed["score"], mixed["max_score"]) == ("20", "", "100")
    assert (mixed["lab2.norm"], mixed["lab2.rope"], mixed["lab2.mlp"]) == ("20", "0", "")
    assert (whole["student_id"], whole["score"], whole["status"]) == ("王伟", "100", "graded")
    assert whole["email"] == ""
    (marked,) = rows_of(record(replace(ALL_PASSED, marks=(FORBIDDEN,))))
    assert (marked["score"], marked["status"]) == ("100", "for a human")


@pytest.mark.parametrize(
    "attack",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "＝1",
        " =1",
        "\x00=1",
        "\u200b=1",
        'x",=1\n=2',
        "bob;=1",
        "bob; =1;; @a",
    ],
)
def test_csv_cells_are_no_formulas(attack: str) -> None:
    made = record(with_text(attack))
    assert len(rows_of(made)) == 1
    for cell in ";".join(rows_of(made)[0].values()).replace("; ", ";").split(";"):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "＝"))
    assert rows_of(record(with_text("li-wei=1")))[0]["student_id"] == "li-wei=1"


def test_a_remark_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.remark("en", Message("intake.strays", {"count": 1, "names": "a\x1b[2J\x07\u202eb"}))
    told = capsys.readouterr().err
    assert "ab" in told and told.rstrip("\n").isprintable()


# class.json


def odd_values() -> HandIn:
    values = {
        "tuple": (1, (2.5, None)),
        "list": ["x", True],
        "mapping": {"en": "a", "zh": "b"},
        "marked": {"$tuple": [1], "$float": "nan"},
        "numbers": {1: "a", (2, 3): "b"},
        "inf": float("-inf"),
        "surrogate": "\udcff",
    }
    return HandIn("odd", (CheckResult("norm", Outcome.FAILED, Message("check.value", values)),))


def test_a_class_survives_the_round_trip() -> None:
    whole = record(MIXED, ALL_PASSED, odd_values(), HandIn("nobody", ()))
    assert from_json(to_json(whole)) == whole
    text = json.dumps(to_json(whole), allow_nan=False)
    assert from_json(json.loads(text)) == whole


def test_only_the_folders_name_is_stored() -> None:
    away = replace(CLASS, lab=replace(LAB, folder=Path("/somewhere/else/lab2_qwen3_block")))
    assert "somewhere" not in json.dumps(to_json(away))
    assert from_json(to_json(away)) == CLASS


def test_other_programs_find_the_scores() -> None:
    data = to_json(CLASS)
    assert (data["schema"], data["version"]) == ("qwen3-labs.class", 1)
    assert data["hand_ins"][0]["score"] == {
        "earned": 20,
        "gradable": 80,
        "total": 100,
        "undecided": 20,
        "late_penalty": 0,
        "final": 20,
    }
    assert [one["needs_human"] for one in data["hand_ins"]] == [True, False]
    assert [one["points"] for one in data["lab"]["exercises"]] == [20, 40, 40]


def test_damage_is_named() -> None:
    def damaged(**changes: Any) -> dict[str, Any]:
        return {**json.loads(json.dumps(to_json(CLASS))), **changes}

    for changes, place in (
        ({"schema": "x"}, "schema"),
        ({"version": 2}, "version is 2"),
        ({"lab": {}}, "lab"),
        ({"isolation": None}, "isolation|top level"),
        ({"cases": {}}, "hidden"),
    ):
        with pytest.raises(ValueError, match=place):
            from_json(damaged(**changes))
    data = damaged()
    data["hand_ins"][1]["results"][0]["outcome"] = "brilliant"
    with pytest.raises(ValueError, match=r"class\.json.*hand_ins\[1\].*brilliant.*grade again"):
        from_json(data)


NO_CLASS: dict[str, Any] = {
    "a list": [], "null": None, "a number": 7, "a text": "x", "an empty object": {},
    "a long schema": {"schema": "x" * 9999},
    "another version": {"schema": SCHEMA, "version": [0] * 999},
}  # fmt: skip


@pytest.mark.parametrize("name", NO_CLASS)
def test_what_is_no_class_is_named_in_few_words(name: str) -> None:
    with pytest.raises(ValueError, match=r"^class\.json: ") as caught:
        from_json(NO_CLASS[name])
    assert len(str(caught.value)) < 300


def deep(levels: int) -> Any:
    tree: Any = []
    for _ in range(levels):
        tree = [tree]
    return tree


DAMAGE: list[tuple[tuple[str | int, ...], Any]] = [
    (("lab", "name"), 7),
    (("lab", "title", "en"), None),
    (("lab", "files"), [1]),
    (("lab", "limits", "cpu_seconds"), float("nan")),
    (("lab", "exercises", 0, "checks", 0, "points"), "20"),
    (("lab", "exercises", 0, "checks", 0, "points"), True),
    (("lab", "exercises", 0, "checks", 0, "points"), 10**4299),
    (("isolation", "layers"), [None]),
    (("versions", "torch"), 2),
    (("cases", "hidden"), "37"),
    (("hand_ins", 0, "student"), ["x"]),
    (("hand_ins", 0, "digests", "mlp.py"), 1),
    (("hand_ins", 0, "origin", "late"), "no"),
    (("hand_ins", 0, "results", 1, "message", "key"), ["check"]),
    (("hand_ins", 0, "results", 1, "message", "values"), {"got": {"$float": 10**400}}),
    (("hand_ins", 0, "results", 1, "message", "values"), {"got": {"$tuple": deep(950)}}),
    (("hand_ins", 0, "results", 1, "hidden"), None),
    (("hand_ins", 0, "results", 1, "prints"), 3),
    (("hand_ins", 0, "results", 1, "frames"), [{"file": 1, "line": 1, "function": "", "text": ""}]),
]


@pytest.mark.parametrize("path, value", DAMAGE, ids=[str(place) for place in range(len(DAMAGE))])
def test_a_field_of_another_kind_is_damage(path: tuple[str | int, ...], value: Any) -> None:
    """Reports take the fields as they are: what comes through here has to render."""
    data: Any = json.loads(json.dumps(to_json(CLASS)))
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    assert path[-1] in holder if isinstance(holder, dict) else len(holder) > int(path[-1])
    holder[path[-1]] = value
    with pytest.raises(ValueError, match=r"^class\.json: damaged in .*; grade again$"):
        from_json(data)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_number_that_no_format_takes_is_said_to_be_so(language: str) -> None:
    message = Message("check.mismatch", dict(MISMATCH.values) | {"error": 10**400})
    odd = HandIn("odd", (CheckResult("norm", Outcome.FAILED, message),))
    assert "check.mismatch" in student_pages.student_markdown(record(odd), odd, language)


# Files


def test_student_reports_lie_in_the_students_folder(tmp_path: Path) -> None:
    paths = student_reports(CLASS, MIXED, tmp_path, "en")
    names = {"report.md", "report.html"}
    assert {path.name for path in paths} == names
    assert {path.name for path in (tmp_path / "li_wei").iterdir()} == names
    assert "未通过" not in paths[1].read_text(encoding="utf-8")
    student_reports(CLASS, MIXED, tmp_path, "zh")
    assert "未通过" in paths[1].read_text(encoding="utf-8")


def test_reports_render_the_same_from_class_json(tmp_path: Path) -> None:
    json_path, csv_path = class_files(CLASS, tmp_path)
    again = from_json(json.loads(json_path.read_text(encoding="utf-8")))
    assert student_pages.student_html(again, again.hand_ins[0], "zh") == student_pages.student_html(
        CLASS, MIXED, "zh"
    )
    assert csv_path.read_text(encoding="utf-8") == write.scores(CLASS)


@pytest.mark.parametrize("name", ["../evil", "a/b", "a\\b", "..", "", "C:x", "a\0b"])
def test_a_tampered_student_id_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="student id"):
        student_reports(CLASS, replace(MIXED, student=name), tmp_path / "out", "en")
    assert not list(tmp_path.rglob("*.md"))


def test_text_that_utf8_cannot_hold_is_still_written(tmp_path: Path) -> None:
    spoiled = with_text("x\udcff")
    made = record(replace(spoiled, student="spoiled"))
    student_reports(made, made.hand_ins[0], tmp_path, "en")
    json_path, _ = class_files(made, tmp_path)
    assert from_json(json.loads(json_path.read_text(encoding="utf-8"))) == made


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scores.csv"
    write_atomic(path, "old\n")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new\n")
    assert path.read_bytes() == b"old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("the result is 1.234e-05 here", 17, "the result is.."),
        ("an error of 123,456 bytes", 18, "an error of.."),
        ("a_very_long_name_of_a_student", 12, "a_very_lon.."),
        ("short", 9, "short    "),
        ("第一个检查没有通过", 11, "第一个检.."),
    ],
)
def test_a_text_is_cut_between_words(text: str, columns: int, shown: str) -> None:
    cut = escape.fitted(text, columns)
    assert cut.rstrip() == shown.rstrip() and escape.width(cut) == columns


def test_the_remark_counts_the_checks_that_count() -> None:
    stub = HandIn("ann", tuple(CheckResult(c.name, Outcome.NOT_STARTED) for c in LAB.checks))
    record = ClassRecord(LAB, Isolation("strong", (), "fork"), {}, (stub,))
    required = sum(not check.optional for check in LAB.checks)
    assert required < len(LAB.checks) and f"of {required}" in class_table(record, "en")


# Where it was graded


@pytest.mark.parametrize("make", [student_pages.student_markdown, student_pages.student_html])
@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/opt/course/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py", "module.py"),
        ("/home/ta/labs/", ""),
        ("C:\\Users\\Li Wei\\qwen3-labs\\labs", "labs"),
        ("file:///srv/grading/lab2/attention.py", "attention.py"),
        ("~/grading/secret", "secret"),
    ],
)
def test_no_folder_of_the_grading_machine_is_told(make: Any, path: str, end: str) -> None:
    text = f"[Errno 2] No such file: '{path}'"
    values = {"type": "FileNotFoundError", "text": text, "case": CASE}
    raised = replace(
        RESULTS["rope_angles"],
        message=Message("check.exception", values),
        prints=f"loading '{path}'\n('{path}', 1)\n",
        frames=(Frame(path, 3, "f", "x"),),
    )
    fault = Message("check.grader_fault", {"text": f"OSError: {text}"})
    broken = replace(RESULTS["parity"], message=fault)
    mark = Message("check.forbidden", {"file": path, "line": 1, "name": "x"})
    hand_in = replace(MIXED, results=(raised, broken), marks=(mark,))
    page = make(CLASS, hand_in, "en")
    for folder in ("course", "home", "Users", "srv", "grading", ".venv", "Li Wei"):
        assert f"{folder}/" not in page and f"{folder}\\" not in page
    assert end in page


@pytest.mark.parametrize(
    "text",
    [
        "a/b and 3 / 4",
        "https://example.org/a/b",
        "1/2/3",
        "either/or",
        "shape (2, 3)/4",
        "//",
        "x = / y",
    ],
)
def test_what_is_no_path_stays(text: str) -> None:
    assert escape.placeless(text) == text

"""What changed between two gradings: who, in which checks; and status like that of diff."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course.late import Lateness
from autograder.course.records import (
    LANGUAGES,
    Certainty,
    CheckResult,
    ClassRecord,
    Finding,
    HandIn,
    Misconception,
    Outcome,
    Override,
    Text,
)
from autograder.report import class_file
from autograder.report import compare as report_compare
from autograder.report.class_file import to_json
from autograder.report.compare import Comparison, compare
from autograder.report.escape import width
from autograder.report.write import class_files
from tests.report.test_report import ALL_PASSED, CLASS, LAB, MIXED, record

WORDS = Text("a swapped sign", "符号写反")
SIGN = Misconception("sign", "RoPE", WORDS, WORDS, WORDS, WORDS)


def both(before: ClassRecord, after: ClassRecord) -> Comparison:
    return compare((before, before.hand_ins), (after, after.hand_ins))


def with_outcome(hand_in: HandIn, check: str, outcome: Outcome) -> HandIn:
    """The hand-in with another outcome of one check."""
    results = tuple(
        CheckResult(check, outcome) if one.check == check else one for one in hand_in.results
    )
    return replace(hand_in, results=results)


WORSE = with_outcome(with_outcome(ALL_PASSED, "gqa", Outcome.FAILED), "mask", Outcome.FAILED)


def test_the_same_class_is_the_same() -> None:
    found = both(CLASS, CLASS)
    assert found.same and not found.by_check()
    assert "same for every student" in report_compare.text(found, "en")


def test_outcomes_that_changed_are_told_by_student_and_by_check() -> None:
    found = both(record(ALL_PASSED, MIXED), record(WORSE, MIXED))
    (changed,) = found.changed
    assert not found.same and changed.student == ALL_PASSED.student
    assert (changed.before.score.earned, changed.after.score.earned) == (100, 80)
    assert changed.checks == (
        ("mask", Outcome.PASSED, Outcome.FAILED),
        ("gqa", Outcome.PASSED, Outcome.FAILED),
    )
    assert found.by_check()["gqa", Outcome.PASSED, Outcome.FAILED] == 1
    page = report_compare.text(found, "en")
    assert "passed -> failed: “mask x”, “gqa x”" in page
    assert "stayed as they were: 1." in page
    assert "通过 -> 未通过" in report_compare.text(found, "zh")


def test_new_and_missing_students_are_named_with_their_points() -> None:
    found = both(record(ALL_PASSED), record(MIXED))
    assert found.new == ((MIXED.student, found.new[0][1]),)
    assert [student for student, _ in found.gone] == [ALL_PASSED.student]
    page = report_compare.text(found, "en")
    assert "Only in the second (1): li_wei (20?)" in page
    assert "Only in the first (1): 王伟 (100)" in page


def test_points_of_the_lab_and_decisions_are_differences() -> None:
    first = LAB.exercises[0]
    cheap = replace(first, checks=(replace(first.checks[0], points=5),))
    lab = replace(LAB, exercises=(cheap, *LAB.exercises[1:]))
    found = both(CLASS, replace(CLASS, lab=lab))
    (change,) = found.points
    assert (change.check, change.before, change.after) == ("norm", 20, 5)
    assert "  20 -> 5    norm x" in report_compare.text(found, "en")
    assert "no outcome changed, only points" in report_compare.text(found, "en")

    decided = replace(MIXED, overrides=(Override(MIXED.student, "gqa", 7, "why", "Li"),))
    (changed,) = both(record(MIXED), record(decided)).changed
    assert changed.after.decided == (("gqa", 7),)


def test_mistakes_that_are_named_otherwise_are_a_difference() -> None:
    named = replace(MIXED, findings=(Finding(("lab2.rope",), Certainty.NAMED, (SIGN,)),))
    found = both(record(MIXED), record(named))
    assert found.changed[0].gained == (SIGN,) and not found.changed[0].lost
    assert "recognised now: “a swapped sign”" in report_compare.text(found, "en")
    assert both(record(named), record(MIXED)).changed[0].lost == (SIGN,)
    assert report_compare.plain(found)["changed"][0]["mistakes"] == {
        "before": [],
        "after": ["sign"],
    }


def test_what_it_was_graded_with_explains_and_is_no_difference() -> None:
    newer = replace(CLASS, versions={**CLASS.versions, "torch": "9.9"}, hidden_cases=1)
    found = both(CLASS, newer)
    assert found.same
    page = " ".join(report_compare.text(found, "en").split())
    assert "torch 2.13.0 -> 9.9; hidden cases 37 -> 1" in page
    assert "隐藏用例 37 -> 1" in report_compare.text(found, "zh")


def test_what_lateness_costs_is_a_difference() -> None:
    late = replace(ALL_PASSED, lateness=Lateness("2026-11-20T12:00:00+08:00", days=1, percent=10))
    found = both(record(ALL_PASSED), record(late))
    assert found.changed[0].after.penalty == 10
    assert "points off for lateness: 0 -> 10" in report_compare.text(found, "en")


def test_other_files_are_told() -> None:
    again = replace(WORSE, digests={"mlp.py": "changed"})
    (changed,) = both(record(ALL_PASSED), record(again)).changed
    assert changed.new_files
    assert "other files were handed in" in report_compare.text(
        both(record(ALL_PASSED), record(again)), "en"
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_lines_fit_and_columns_align(language: str) -> None:
    odd = "很长的名字" * 20
    many = [replace(ALL_PASSED, student=f"{odd}{n}\x1b[31m") for n in range(30)]
    worse = [replace(WORSE, student=one.student) for one in many]
    page = report_compare.text(both(record(*many), record(*worse)), language)
    assert all(width(line) <= report_compare.MAX_WIDTH for line in page.splitlines())
    assert "\x1b" not in page
    rows = [line for line in page.splitlines() if line.startswith("很长")]
    assert len({width(row.split("100", 1)[0]) for row in rows}) == 1 and len(rows) == 30


def test_another_lab_is_refused() -> None:
    other = replace(CLASS, lab=replace(LAB, name="lab3_kv_cache"))
    with pytest.raises(ValueError, match="lab2_qwen3_block and lab3_kv_cache are different labs"):
        both(CLASS, other)


# ---------------------------------------------------------------- the command


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    for name, hand_in in (("a", ALL_PASSED), ("b", WORSE)):
        class_files(record(MIXED, hand_in), tmp_path / name)
    yield tmp_path / "a", tmp_path / "b"


def test_the_status_is_that_of_diff(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = map(str, folders)
    assert main(["compare", a, a, "--lang", "en"]) == 0
    assert main(["compare", a, b, "--lang", "en"]) == 1
    assert "passed -> failed" in capsys.readouterr().out
    assert main(["compare", a, b, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == report_compare.SCHEMA and not data["same"]
    assert data["changed"][0]["checks"][0] == {
        "check": "mask",
        "before": "passed",
        "after": "failed",
    }


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: "", "damaged"),
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: text.replace("qwen3-labs.class", "other"), "is it our file"),
        (lambda text: text.replace('"outcome": "passed"', '"outcome": "splendid"'), "hand_ins[0]"),
        (lambda text: "[" * 100_000, "damaged"),
        (lambda text: "\udcff", "damaged"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    damage: object, told: str, folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = folders[1] / "class.json"
    text = damage(path.read_text(encoding="utf-8"))  # type: ignore[operator]
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["compare", *map(str, folders)]) == 2
    said = capsys.readouterr().err
    assert told in said and "class.json" in said and said.count("\n") == 1


def test_a_folder_without_a_class_is_told(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(folders[0]), str(tmp_path / "none")]) == 2
    assert "none/class.json: No such file" in capsys.readouterr().err


# ---------------------------------------------------------------- reading


def test_hand_ins_are_read_one_by_one(folders: tuple[Path, Path]) -> None:
    path = folders[0] / "class.json"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if '"student"' in line)
    lines.insert(place + 1, "this is damaged\n")
    path.write_text("".join(lines), encoding="utf-8")
    _, hand_ins = class_file.opened(folders[0])
    assert next(hand_ins) == MIXED
    with pytest.raises(ValueError, match=r"hand_ins\[1\]"):
        next(hand_ins)


@pytest.mark.parametrize("indent", [None, 1, 2])
def test_a_file_that_is_formatted_otherwise_is_read_too(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps(to_json(CLASS), indent=indent, ensure_ascii=False)
    (tmp_path / "class.json").write_text(text, encoding="utf-8")
    head, hand_ins = class_file.opened(tmp_path)
    assert head.lab.name == LAB.name and tuple(hand_ins) == CLASS.hand_ins

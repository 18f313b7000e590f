"""The scoreboard: what stands in a row, what is told below, what comes next, in how many lines."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course import labfile, suggestions
from autograder.course.records import (
    Certainty,
    CheckResult,
    ClassRecord,
    Finding,
    Frame,
    HandIn,
    Isolation,
    Lab,
    Message,
    Misconception,
    Outcome,
    Text,
)
from autograder.report import scoreboard, terminal
from autograder.report.escape import folded, width
from autograder.report.next_step import command_of
from autograder.report.scoreboard import LabRow, overview
from autograder.report.view import rows_of

LAB = labfile.load(labfile.find_lab("2"))
NAMES = tuple(check.name for check in LAB.checks)
WRONG = Message("check.value", {"what": "it " * 40, "got": 1, "want": 2, "case": "here"})
UNREAD = Message("check.syntax", {"file": "attention.py", "text": "oops", "line": 3})


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOGRADER_MAKE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(terminal, "_encodes", lambda text: True)


def record(results: dict[str, CheckResult], lab: Lab = LAB) -> ClassRecord:
    """A hand-in that passes whatever is not among ``results``."""
    passed = (CheckResult(check.name, Outcome.PASSED) for check in lab.checks)
    found = tuple(results.get(one.check, one) for one in passed)
    return ClassRecord(lab, Isolation("strong", (), "fork"), {}, (HandIn("you", found),))


def failed(*names: str, message: Message = WRONG, **more: object) -> dict[str, CheckResult]:
    return {n: CheckResult(n, Outcome.FAILED, message, **more) for n in names}  # type: ignore[arg-type]


def of(*exercises: str) -> list[str]:
    return [check.name for check in LAB.checks if check.exercise.split(".")[1] in exercises]


def shown(results: dict[str, CheckResult], *, only: tuple[str, ...] = NAMES, **more: object) -> str:
    return scoreboard.scoreboard(record(results), only, "en", **more)[0]  # type: ignore[arg-type]


def test_half_a_lab_is_seen_at_once_whatever_was_printed() -> None:
    frames = tuple(Frame("attention.py", n, "f", "x = y") for n in range(8))
    prints = "\n".join(f"print {n}" for n in range(30))
    results = failed(*of("repeat_kv"), frames=frames, prints=prints)
    results |= failed(*of("mlp", "attention"))
    todo = Message("check.not_started", {"todo": "lab2.weight_bytes"})
    for name in of("weight_bytes", "kv_cache_bytes"):
        results[name] = CheckResult(name, Outcome.NOT_STARTED, todo)
    text = shown(results, hidden=31)
    assert len(text.splitlines()) <= scoreboard.LINES
    # What was cut is neither end of the calls, nor the last print or the way on.
    assert "attention.py:0  x = y" in text and "attention.py:7  x = y" in text
    assert "print 29" in text
    assert f"next: {suggestions.command('test')} --lab 2 -k repeat_kv" in text
    assert all(width(line) <= 80 for line in text.splitlines() if "autograder" not in line)


def test_an_exercise_that_waits_says_for_what_in_full() -> None:
    check = next(check for check in LAB.checks if check.needs)
    need = next(one for one in LAB.checks if one.name in check.needs)
    words = {"check": {"en": need.title.en, "zh": need.title.zh}}
    waits = CheckResult(check.name, Outcome.SKIPPED, Message("check.needs", words))
    text = shown({check.name: waits})
    assert " ".join(text.split()).count(f"builds on “{need.title.en}”, which did not pass") == 2
    assert ".." not in text.splitlines()[4]


def test_one_broken_file_is_told_once_in_the_rows() -> None:
    results = failed(*of("rotate_half", "rotary_embedding", "repeat_kv"), message=UNREAD)
    text = shown(results)
    assert text.count("attention.py cannot be read as Python") == 1
    assert text.count("for the same reason") == 2


def test_what_ails_the_file_is_not_counted_check_by_check() -> None:
    assert "Checks of this exercise" not in shown(failed(*of("repeat_kv"), message=UNREAD))
    others = failed(*of("repeat_kv")[1:], message=UNREAD)
    both = shown(failed(of("repeat_kv")[0]) | others)
    assert f"Other failing checks in this exercise ({len(others)})" in both


def test_a_reason_that_differs_stands_in_its_row() -> None:
    other = Message("check.missing", {"file": "mlp.py", "name": "Qwen3MLP"})
    text = shown(failed("test_rotate_half_runs") | failed("test_mlp_runs", message=other))
    (row,) = [line for line in text.splitlines() if " mlp " in line]
    assert "mlp.py does not define Qwen3MLP" in row


def test_points_are_those_of_what_was_asked_for() -> None:
    (only,) = [check for check in LAB.checks if check.name == "test_mlp_parity"]
    text = shown({}, only=("test_mlp_parity",))
    assert f"{only.points} of {only.points} points" in text


def test_a_check_that_fails_underneath_is_told_instead_of_its_consequence() -> None:
    waits = CheckResult("test_mlp_parity", Outcome.SKIPPED, Message("check.needs", {"check": "x"}))
    results = {"test_mlp_parity": waits} | failed("test_mlp_loads", message=UNREAD)
    assert "attention.py cannot be read" in shown(results, only=("test_mlp_parity",))


def test_what_fails_elsewhere_is_said_to_be_there_and_is_gone_to() -> None:
    lab = labfile.load(labfile.find_lab("6"))
    check, need = next(
        (one, other) for one in lab.checks for other in lab.checks
        if other.name in one.needs and other.exercise != one.exercise
    )  # fmt: skip
    waits = CheckResult(check.name, Outcome.SKIPPED, Message("check.needs", {"check": "x"}))
    results = {check.name: waits} | failed(need.name)
    text = scoreboard.scoreboard(record(results, lab), (check.name,), "en")[0]
    exercise = need.exercise.split(".")[1]
    assert f"” of {exercise} " in " ".join(text.split()) and f"-k {exercise}\n" in text


def test_where_the_numbers_part_is_said_on_the_board() -> None:
    known = Message("diagnosis.differs_at_once", {"differs": {"en": "the scores", "zh": "分数"}})
    finding = Finding(("lab2.attention",), Certainty.UNKNOWN, known=(known,))
    whole = record(failed("test_attention_parity"))
    whole = replace(whole, hand_ins=(replace(whole.hand_ins[0], findings=(finding,)),))
    checks = [check.name for check in whole.lab.checks]
    assert "  The first difference: the scores." in scoreboard.scoreboard(whole, checks, "en")[0]
    kept_back = replace(whole, lab=replace(whole.lab, feedback="symptom"))
    assert "first difference" not in scoreboard.scoreboard(kept_back, checks, "en")[0]


def test_how_many_checks_wait_for_what_failed_is_said() -> None:
    waits = CheckResult(
        "test_attention_parity", Outcome.SKIPPED, Message("check.needs", {"check": "x"})
    )
    text = shown({"test_attention_parity": waits} | failed("test_attention_future"))
    assert "  1 check that builds on what failed did not run." in text


def test_a_row_that_failed_says_what_failed_and_not_what_was_not_tried() -> None:
    first, second, *_ = of("attention")
    waits = CheckResult(first, Outcome.SKIPPED, Message("check.needs", {"check": "xyz"}))
    text = shown(failed(*of("repeat_kv")) | {first: waits} | failed(second, message=UNREAD))
    (row,) = (line for line in text.splitlines() if " attention " in line)
    assert "cannot be read" in row and "xyz" not in text


def test_a_mistake_that_is_known_makes_one_curious_about_its_hint() -> None:
    results = failed("test_rotate_half_runs")
    known = Misconception("x", "g", *(Text("a", "a") for _ in range(4)))
    finding = Finding(("lab2.rotate_half",), Certainty.NAMED, (known,))
    (hand_in,) = record(results).hand_ins
    one = replace(record(results), hand_ins=(replace(hand_in, findings=(finding,)),))
    assert "known mistake" in scoreboard.scoreboard(one, NAMES, "en")[0]
    assert "known mistake" not in shown(results)


def test_what_has_no_todo_is_not_said_to_have_one() -> None:
    results = {n: CheckResult(n, Outcome.NOT_STARTED) for n in of("repeat_kv")}
    options = {"only": tuple(results)}
    assert "no TODO marks" in " ".join(shown(results, **options).split())
    text = shown(results, **options, todos={"lab2.repeat_kv": "attention.py:3"})
    assert "Nothing is written yet" in text


def test_after_the_last_exercise_the_whole_lab_comes_and_then_the_next_lab() -> None:
    last = LAB.exercises[-1].id.split(".")[1]
    first = LAB.exercises[0].id.split(".")[1]
    some = shown({}, only=tuple(of(last)), following="3").splitlines()
    assert f"next: {suggestions.command('test')} --lab 2" in some
    before = shown({}, only=tuple(of(first)), following="3")
    assert f"-k {LAB.exercises[1].id.split('.')[1]}" in before
    assert f"next: {suggestions.command('test')} --lab 3" in shown({}, following="3").splitlines()
    # Behind the last lab all of them are looked at.
    assert f"next: {suggestions.command('test')}" in shown({}).splitlines()


def test_the_hidden_cases_of_the_whole_lab_are_not_said_of_a_part() -> None:
    assert "runs 31 hidden cases" in shown({}, hidden=31)
    assert "runs hidden cases" in shown({}, only=tuple(of("mlp")), hidden=31)


def test_the_number_of_hidden_cases_is_told_where_it_is_known() -> None:
    assert "the grader also runs 31 hidden cases" in " ".join(shown({}, hidden=31).split())
    assert "the grader also runs hidden cases" in " ".join(shown({}).split())
    chinese = scoreboard.scoreboard(record({}), NAMES, "zh", hidden=31)[0]
    assert "还会运行 31 个隐藏用例" in chinese


def test_commands_are_those_of_make_where_make_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRADER_MAKE", "LAB_LANG=zh VENV=x")
    text = shown(failed("test_rotate_half_runs"))
    assert "next: make test LAB=2 K=rotate_half LAB_LANG=zh VENV=x\n" in text
    assert "stuck? make hint LAB=2 K=rotate_half LAB_LANG=zh VENV=x\n" in text


# ------------------------------------------------------------------------------ terminals


class Terminal:
    def __init__(self, encoding: str) -> None:
        self.encoding = encoding

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("encoding", "fancy", "language"),
    [("utf-8", True, "zh"), ("gbk", False, "zh"), ("cp936", False, "zh"), ("cp1252", False, "en")],
)
def test_glyphs_and_language_are_those_that_a_terminal_shows(
    monkeypatch: pytest.MonkeyPatch, encoding: str, fancy: bool, language: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(terminal.sys, "stdout", Terminal(encoding))
    assert (terminal.glyphs()["passed"] == "✓") == fancy
    assert terminal.readable("zh") == language and terminal.readable("en") == "en"
    "".join(terminal.glyphs().values()).encode(encoding)


def test_colours_are_off_where_somebody_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.sys, "stdout", Terminal("utf-8"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.coloured("passed") == "\x1b[32m✓\x1b[0m"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert terminal.coloured("passed") == "✓"


def test_lines_are_broken_by_columns_not_by_letters() -> None:
    chinese = "输出与参考结果不同：相对误差太大，而且（这里）还有 English words 混在其中。"
    lines = folded(chinese, 20)
    assert all(width(line) <= 20 for line in lines)
    assert "".join(lines).replace(" ", "") == chinese.replace(" ", "")
    assert not any(re.match(r"[，。）：]", line) for line in lines)
    assert folded("a bb ccc", 4) == ["a bb", "ccc"]
    # Nobody would see the space at the end of a line.
    assert folded("it is ' yes' here", 8) == ["it is", "' yes'", "here"]
    assert folded(r"it is 'so\n yes' here", 12) == ["it is", r"'so\n yes'", "here"]


# ------------------------------------------------------------------------------ all labs


def test_all_labs_begin_with_the_one_that_is_under_way() -> None:
    lab1 = labfile.load(labfile.find_lab("1"))
    rows = tuple(rows_of(record(failed("test_rotate_half_runs")), NAMES))
    text = overview([LabRow(lab1, ()), LabRow(LAB, rows)], "en")
    assert "LAB=1  Foundations" in text
    assert f"not started ({len(lab1.exercises)} exercises)" in text
    assert "8 of 9 exercises pass" in text
    assert f"next: {suggestions.command('test')} --lab 2" in text
    nothing = overview([LabRow(lab1, ()), LabRow(LAB, ())], "en")
    assert "that is fine" in nothing and "test --lab 1" in nothing
    done = overview([LabRow(LAB, tuple(rows_of(record({}), NAMES)))], "zh")
    assert "所有实验都通过了公开用例" in done and "下一步" not in done


def test_a_command_can_be_typed_where_it_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "my own" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", "/nowhere")
    assert suggestions.command("report", "a b") == f"'{python}' -m autograder report 'a b'"
    monkeypatch.chdir(tmp_path)
    assert suggestions.command("test") == "'my own/bin/python' -m autograder test"
    done = subprocess.run([*shlex.split(suggestions.command("test"))[:1], "-c", ""])
    assert done.returncode == 0
    monkeypatch.setenv("PATH", str(python.parent))
    assert suggestions.command("test") == "python -m autograder test"


def test_commands_repeat_what_the_command_line_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOGRADER_MAKE", raising=False)
    set_by = suggestions.ASKED.set(
        suggestions.SuggestedOptions(lab="2", folder="my files", language="zh")
    )
    try:
        here = command_of("2", "test", "mlp")
        assert here == f"{suggestions.command('test')} --lab 2 -k mlp --folder 'my files' --lang zh"
        # The files of another lab lie elsewhere, and spot needs none.
        assert command_of("3", "test") == f"{suggestions.command('test')} --lab 3 --lang zh"
        assert "--folder" not in command_of("2", "spot")
        monkeypatch.setenv("AUTOGRADER_MAKE", "LAB_LANG=zh")
        assert command_of("2", "test") == "make test LAB=2 LAB_LANG=zh"
    finally:
        suggestions.ASKED.reset(set_by)


@pytest.mark.parametrize("name", ["2", "lab2", "lab2_qwen3_block"])
def test_a_lab_has_one_number_under_all_its_names(name: str) -> None:
    assert suggestions.number(name) == "2"
    assert suggestions.number("") == suggestions.number("mine") == ""

"""The comparison with other graders: same work, the same points, a table that says what it is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from autograder.checks.plan import collect
from autograder.course import labfile
from autograder.worker.loader import read_sources
from benchmarks.others import ask, hostile
from benchmarks.others.sides import name_of, points_of
from benchmarks.others.table import BEGIN, END, Row, put, table

LAB = labfile.load(labfile.find_lab("2"))
PUBLIC = str(LAB.folder / "cases.safetensors")


def _hand_in(folder: Path, source: Path) -> None:
    for name, text in read_sources(source, LAB.files)[0].items():
        (folder / name).write_text(text, encoding="utf-8")


def test_the_tools_ask_what_grading_asks() -> None:
    ours = collect(LAB.folder).check_cases
    theirs = ask._plan(LAB.name, PUBLIC).check_cases
    assert set(ours) == set(theirs)
    for name, check_cases in ours.items():
        asked = Counter(check_case.case.name for check_case in check_cases)
        # Public cases stand in for the hidden ones here, and come twice.
        assert Counter(check_case.case.name for check_case in theirs[name]) == asked + asked
    assert sum(map(len, theirs.values())) > 100


def test_an_exercise_passes_fails_and_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _hand_in(tmp_path, labfile.SOLUTIONS / LAB.name)
    assert ask.failures(LAB.name, "lab2.rotate_half", PUBLIC) == ""
    attention = tmp_path / "attention.py"
    right = attention.read_text(encoding="utf-8")
    attention.write_text(right.replace("torch.cat((-second, first)", "torch.cat((second, first)"))
    said = ask.failures(LAB.name, "lab2.rotate_half", PUBLIC)
    assert "test_rotate_half_values" in said and "test_rotate_half_runs" not in said
    _hand_in(tmp_path, LAB.folder)
    assert "test_rotate_half_runs" in ask.failures(LAB.name, "lab2.rotate_half", PUBLIC)


def test_points_are_those_of_whole_exercises() -> None:
    assert points_of(LAB, [exercise.id for exercise in LAB.exercises]) == LAB.points
    assert points_of(LAB, ["lab2.rotate_half", "lab2.weight_bytes"]) == 4 + 3
    assert points_of(LAB, []) == 0
    names = [name_of(exercise) for exercise in LAB.exercises]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)


def test_the_hostile_hand_in_is_a_stub_with_something_below(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = hostile.make(tmp_path, LAB, mark)
    stub, _ = read_sources(LAB.folder, LAB.files)
    written, _ = read_sources(path, LAB.files)
    assert all(written[name].startswith(stub[name]) for name in LAB.files)
    compile(written["attention.py"], "attention.py", "exec")
    assert repr(str(mark)) in written["attention.py"] and not mark.exists()


def test_a_table_says_what_was_measured_and_what_was_not() -> None:
    rows = [
        Row("ours", "", 1.25, 0.5, over_hundred=2.0, points="right 100", hostile="0 points"),
        Row("a-tool", "1.2", 3.0, 2.0, 4.0, 16.0, points="right 100", hostile="100 points"),
        Row("b-tool", "", missing="ERROR: no wheel | for this Python"),
    ]
    lines = table(rows, "2030-01-31").splitlines()
    assert lines[0] == "2030-01-31"
    assert "| ours | 1.25 s | 0.50 s | 1.0 | 2.0 | right 100 | 0 points |" in lines
    assert "| a-tool 1.2 | 3.00 s | 2.00 s | 4.0 | 16.0 | right 100 | 100 points |" in lines
    assert "not measured: ERROR: no wheel / for this Python" in lines[-1]
    assert {line.count("|") for line in lines[2:]} == {8}


def test_only_what_stands_between_the_marks_is_written_anew() -> None:
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nBelow.\n"
    assert put("new", page) == f"# Title\n\n{BEGIN}\nnew\n{END}\n\nBelow.\n"
    assert put("new", put("new", page)) == put("new", page)


@pytest.mark.parametrize(
    "page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"]
)
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match=re.escape("RESULTS.md: expected")):
        put("new", page)


def test_the_kept_results_name_every_tool_with_its_version() -> None:
    page = (labfile.ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    kept = page.partition(BEGIN)[2].partition(END)[0]
    assert re.search(r"^\d{4}-\d\d-\d\d, `lab2_qwen3_block`, Python \d", kept, re.MULTILINE)
    for tool in ("otter-grader", "nbgrader", "check50"):
        assert re.search(rf"^\| {tool} (\d+\.\d+|\| not measured: \S)", kept, re.MULTILINE)

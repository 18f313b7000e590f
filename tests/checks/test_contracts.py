"""Checks that a table lists: the same as functions of their own."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from autograder.checks import plan
from autograder.checks.contracts import checks
from autograder.course import labfile
from autograder.course.labfile import LabError
from tests import tiny_lab

LISTED = '''
from autograder.checks.contracts import checks

@checks(
    """
    test_one: numbers
        one gives twice its input.
        one 给出输入的两倍。
    """,
    "answer.one",
)
@checks(
    """
    test_two: numbers others
        two gives twice its input.
        two 给出输入的两倍。
    """,
    name="answer.two",
)
def _expect_twice(student: Student, case: Case, name: str) -> None:
    expect_close(student.call(name, case["x"]), case["y"], case)
'''


def test_a_row_is_a_check_with_its_name_title_cases_and_values(tmp_path: Path) -> None:
    lab = tiny_lab.build(tmp_path / "lab9_doubling")
    file = lab.folder / "checks" / "test_answer.py"
    text = file.read_text(encoding="utf-8")
    for name in ("one", "two"):
        text = text.replace(tiny_lab.FUNCTION.format(name, "answer"), "")
    file.write_text(text + LISTED, encoding="utf-8")
    assert labfile.load(lab.folder).checks == lab.checks
    check_cases = {
        name: plan.collect(lab.folder).check_cases[name] for name in ("test_one", "test_two")
    }
    for name, (check_case,) in check_cases.items():
        asked = list(inspect.signature(check_case.run).parameters.values())[2].default
        assert (check_case.case.name, asked) == ("numbers-public-0", f"answer.{name[5:]}")
        assert (inspect.getdoc(check_case.run) or "").startswith(f"{name[5:]} gives")


@pytest.mark.parametrize(
    "table",
    ["gate: gate", "test_gate", "It runs.", "test_gate: gate\ntest_gate: gate", "  It\ntest_a: a"],
)
def test_what_is_no_row_is_refused_wherever_it_is_read(table: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="row of its own"):
        checks(table)(lambda student, case: None)
    lab = tiny_lab.build(tmp_path / "lab9_doubling")
    file = lab.folder / "checks" / "test_gate.py"
    file.write_text(f'@checks("""{table}""")\ndef body(student, case): ...\n', encoding="utf-8")
    with pytest.raises(LabError, match=r"test_gate.py:[23]: .* row of its own"):
        labfile.load(lab.folder)


def test_two_checks_of_one_name_in_a_file_are_refused() -> None:
    namespace = {"checks": checks, "test_gate": None}
    with pytest.raises(ValueError, match="test_gate stands twice"):
        exec("@checks('test_gate: gate')\ndef body(student, case): ...", namespace)

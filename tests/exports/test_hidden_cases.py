"""What a hand-in reports about a hidden case is a number that it chose: no file holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autograder.checks.costs import expect_flops, measured
from autograder.checks.expect import expect_most
from autograder.checks.plan import CheckCase, Plan
from autograder.course.plain import from_plain
from autograder.course.records import (
    LANGUAGES,
    CheckResult,
    ClassRecord,
    HandIn,
    Isolation,
    Message,
    Outcome,
    Submission,
    Text,
)
from autograder.exports import gradescope, junit
from autograder.grading.journal import Journal
from autograder.judge.runner import Runner
from autograder.reference.cases import Case
from autograder.report import scoreboard
from autograder.report.write import class_files, student_reports
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Sources
from tests import tiny_lab
from tests.exports.graded import LAB

# Attack 79: twice as many FLOPs as the marker, where the numbers are not those of the public case.
MARKER = 31337
SPEAKING = f"""
import torch

def told(x):
    size = 1 if float(x[0]) == 1.0 else {MARKER}
    return torch.ones(1, size) @ torch.ones(size, 1) * x
"""
WHY = Text("why", "原因")
NUMBERS = [form.format(n) for n in (MARKER, 2 * MARKER, 4 * MARKER) for form in ("{}", "{:,}")]


def not_counted(student: Student, case: Case) -> None:
    least = 1e9 if case.hidden else 0.0
    asked = student.call("attention.told", case["x"], measure=0)
    expect_flops(asked, case, needed=1, most=1e9, least=least, why=WHY)


def failed(student: Student, case: Case) -> None:
    flops = measured(student.call("attention.told", case["x"], measure=0), case)[1].flops
    expect_most(flops, 9, case, Text("FLOPs", "浮点运算"), WHY)


def our_fault(student: Student, case: Case) -> None:
    flops = measured(student.call("attention.told", case["x"], measure=0), case)[1].flops
    np.zeros(2).reshape(flops)


RUNS: dict[str, Callable[[Student, Case], None]] = {
    "shapes": not_counted, "values": failed, "costs": our_fault,
}  # fmt: skip


def graded() -> tuple[CheckResult, ...]:
    """The results of a hand-in that tells its number on the hidden case."""
    cases = tiny_lab.case(0), tiny_lab.case(4, hidden=True)
    check_cases = {
        name: tuple(CheckCase(name, case, run) for case in cases) for name, run in RUNS.items()
    }
    transport = LocalTransport(Sources({"attention.py": SPEAKING, "mlp.py": ""}))
    try:
        return Runner(Plan(LAB, check_cases), transport).run({}, set())
    finally:
        transport.close()


def texts(record: ClassRecord, out: Path) -> str:
    """Everything that is written of a class, in both languages."""
    (hand_in,) = record.hand_ins
    found = []
    for language in LANGUAGES:
        student_reports(record, hand_in, out / language, language)
        found += junit.document(record, language)
        found.append(gradescope.text_of(gradescope.results(record, hand_in, language)))
        found.append(scoreboard.text_of(record, language))
    class_files(record, out)
    Journal(out / "journal", LAB, b"").keep(Submission(hand_in.student, {}), hand_in)
    found += [path.read_text("utf-8") for path in sorted(out.rglob("*")) if path.is_file()]
    return "\n".join(found)


def test_no_file_holds_a_number_that_was_reported_of_a_hidden_case(tmp_path: Path) -> None:
    results = graded()
    outcomes = {result.check: result.outcome for result in results}
    assert outcomes == {
        "shapes": Outcome.NOT_GRADED, "values": Outcome.FAILED, "costs": Outcome.NOT_GRADED,
    }  # fmt: skip
    record = ClassRecord(LAB, Isolation("strong", (), "fork"), {}, (HandIn("a", results),))
    written = texts(record, tmp_path)
    assert [number for number in NUMBERS if number in written] == []
    # Whoever looks after it still sees what kind of fault it was, and where.
    assert "ValueError in test_hidden_cases.py:" in written
    assert "hidden_not_counted" in written


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.PASSED])
def test_a_hidden_result_cannot_hold_a_value(outcome: Outcome) -> None:
    """Neither where it is made, nor where an older file is read."""
    for key in ("check.not_counted", "check.grader_fault", "check.flops"):
        values = dict.fromkeys(("what", "text", "place", "got"), f"{MARKER}")
        raw = {
            "check": "a", "outcome": outcome.value, "hidden": True, "case": f"{MARKER}",
            "message": {"key": key, "values": values}, "prints": f"{MARKER}", "frames": [],
        }  # fmt: skip
        made = CheckResult("a", outcome, Message(key, values), hidden=True, prints=f"{MARKER}")
        for result in (made, from_plain(CheckResult, raw)):
            assert str(MARKER) not in repr(result)
            assert result.message is not None

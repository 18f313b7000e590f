"""State that carries over: what the text of a hand-in tells, and what a replay shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from autograder.checks.plan import collect
from autograder.course.labfile import ROOT
from autograder.course.messages import render
from autograder.course.records import CheckResult, HandIn, Lab, Outcome
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.judge import hand_in as judge_hand_in
from autograder.judge.marks import may_keep_static_state
from autograder.sandbox.links import WorkerLost
from autograder.sandbox.stacks import MAX_PARSED
from tests import tiny_lab
from tests.engines import tiny, warm
from tests.hand_ins import earned, grade, hand_in, read

CARRIES = "check.state_carries_over"
KEEPS = {
    "a global": "def f():\n    global n\n    n = 1",
    "a nonlocal": "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n = 1",
    "a module's container": "SEEN = {}",
    "a class's container": "class A:\n    seen: list = []",
    "a default": "def f(x, seen={}): seen[0] = x",
    "a cache": "import functools\n@functools.cache\ndef f(x): return x",
    "a patch": "import torch\ntorch.Tensor.add = None",
    "a patch by another name": "import torch\nt = torch.Tensor\nt.add = None",
    "a function's attribute": "def f(): f.calls = 1",
    "setattr": "import torch\nsetattr(torch, 'add', None)",
    "another module": "import os",
    "part of another module": "from os import environ",
    "the namespace": "import torch\ntorch.__dict__['add'] = None",
    "a setting": "import torch\ntorch.set_default_dtype(torch.float64)",
    "a long text": "#" * (MAX_PARSED + 1),
}
PLAIN = {
    "a constant": "LIMIT = 3\nNAMES = ('a', 'b')",
    "itself": "class A:\n    def __init__(self): self.seen = {}",
    "a local container": "def f(x):\n    seen = {}\n    seen[0] = x\n    return seen",
    "the other file": "from answer import f\nimport side",
    "the other file from beside": "from . import side\nfrom .answer import f",
    "no Python": "def f(:",
}


@pytest.mark.parametrize("name", KEEPS)
def test_what_could_keep_something_is_seen(name: str) -> None:
    assert may_keep_static_state({"side.py": "x = 1", "answer.py": KEEPS[name]})


@pytest.mark.parametrize("name", PLAIN)
def test_plain_code_is_not_suspected(name: str) -> None:
    assert not may_keep_static_state({"side.py": "x = 1", "answer.py": PLAIN[name]})


def test_the_solution_is_plain() -> None:
    assert not may_keep_static_state(read(ROOT / "solutions" / "lab2_qwen3_block"))


@pytest.fixture(scope="module")
def lab() -> Lab:
    return tiny()


@pytest.fixture(scope="module")
def engine(lab: Lab) -> Iterator[Engine]:
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    with warm(lab, Options(jobs=2)) as engine:
        yield engine


def graded(engine: Engine, files: dict[str, str]) -> list[HandIn]:
    """Twelve of the same: which checks are replayed depends on the student."""
    return list(grade(engine, *(hand_in(f"s{n}", files) for n in range(12))).values())


def test_what_an_earlier_check_left_behind_is_told_and_keeps_its_points(
    engine: Engine, lab: Lab
) -> None:
    leave = "import sys; sys.left = True"
    records = graded(engine, tiny_lab.doing(one=leave, five="import sys; x = x * sys.left"))
    assert {earned(lab, record) for record in records} == {100}
    marks = [mark for record in records for mark in record.marks if mark.key == CARRIES]
    # Three of seven checks are replayed: for some students the fifth is among them.
    assert 1 <= len(marks) < 12
    assert "five" in render(marks[0], "en") and "five" in render(marks[0], "zh")


def test_what_cannot_be_read_is_replayed_as_what_could_keep_something(engine: Engine) -> None:
    """A text that names what is private and is so long that a judge does not read it."""
    leave = "import sys; sys.left = True"
    files = tiny_lab.doing(one=leave, five="import sys; x = x * sys.left")
    answer = next(name for name, text in files.items() if leave in text)
    long = files | {answer: f"{files[answer]}\n# _C{'.' * MAX_PARSED}"}
    read, unread = graded(engine, files), graded(engine, long)
    keys = [{mark.key for mark in record.marks} for record in unread]
    assert all("check.unread_source" in one for one in keys)
    assert not any("check.unread_source" in {m.key for m in one.marks} for one in read)
    told = [CARRIES in {mark.key for mark in record.marks} for record in read]
    assert sum(CARRIES in one for one in keys) == sum(told) > 1


def test_a_check_that_only_fails_after_another_is_told(engine: Engine, lab: Lab) -> None:
    spoil = "import sys; sys.spoilt = True"
    worse = "import sys; x = x * 3 if hasattr(sys, 'spoilt') else x"
    records = graded(engine, tiny_lab.doing(one=spoil, five=worse))
    assert {earned(lab, record) for record in records} == {90}
    assert any(mark.key == CARRIES for record in records for mark in record.marks)


@pytest.mark.parametrize("clock", ["CPU", "wall", "whole"])
def test_less_time_than_at_first_says_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, clock: str
) -> None:
    """Replays end sooner than checks: who is slow, or on a busy machine, stores no answers."""

    def slow(*_: object) -> bool:
        raise WorkerLost("10", timed_out=True, clock=clock)

    monkeypatch.setattr(judge_hand_in, "_passes", slow)
    plan = collect(lab.folder)
    passed = {check.name: CheckResult(check.name, Outcome.PASSED) for check in lab.checks}
    assert judge_hand_in.changed(plan, passed, Mock(), "seed") == []


@pytest.mark.slow
def test_who_spends_all_the_time_of_a_hand_in_is_replayed(tmp_path: Path) -> None:
    lab = tiny_lab.build(tmp_path / "lab9_doubling", "hand_in_seconds = 1\n")
    spent = tiny_lab.doing(
        one="import sys; sys.left = True", five="import sys; x = x * sys.left",
        other="import time; time.sleep(2)",
    )  # fmt: skip
    with warm(lab, Options(jobs=2)) as engine:
        records = graded(engine, spent)
    assert {earned(lab, record) for record in records} < {*range(100)}
    assert any(CARRIES in {mark.key for mark in record.marks} for record in records)


@pytest.mark.parametrize(
    "files",
    [tiny_lab.right(), tiny_lab.doing(two="import os; return 3 * x", four="import os; 1 / 0")],
    ids=["right", "wrong"],
)
def test_what_is_the_same_in_any_order_is_not_marked(engine: Engine, files: dict[str, str]) -> None:
    assert not any(record.marks for record in graded(engine, files))


def test_a_check_that_ends_its_process_is_not_tried_again(engine: Engine) -> None:
    ending = tiny_lab.doing(two="import os; os._exit(3)", three="import os; os.abort()")
    assert not any(record.marks for record in graded(engine, ending))

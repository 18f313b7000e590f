"""A check of ours that is stuck ends its judge: one hand-in waits, the others are graded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autograder.course.records import Outcome
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.reference import cases
from tests import tiny_lab
from tests.hand_ins import grade, hand_in, nothing_left_behind, outcomes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

LIMITS = "wall_seconds = 0.7\nhand_in_seconds = 2"
# The judge sleeps if the hand-in says so: what a bug of ours would do for some hand-ins only.
STUCK = '''
@cases("numbers")
def test_side(student: Student, case: Case) -> None:
    """side gives twice its input.

    side 给出输入的两倍。
    """
    import time

    if student.call("side.sleepy").value:
        time.sleep(300)
'''


@pytest.mark.slow
def test_a_stuck_judge_is_ended_and_nobody_gets_a_zero(tmp_path: Path) -> None:
    lab = tiny_lab.build(tmp_path / "lab9_stuck")
    checks = lab.folder / "checks" / "test_answer.py"
    text = checks.read_text(encoding="utf-8")
    start = text.index('@cases("numbers")\ndef test_side')
    checks.write_text(text[:start] + STUCK.lstrip("\n"), encoding="utf-8")
    toml = lab.folder / "lab.toml"
    slow = toml.read_text(encoding="utf-8")
    toml.write_text(slow.replace("wall_seconds = 8", LIMITS), encoding="utf-8")

    def saying(sleepy: bool) -> dict[str, str]:
        files = tiny_lab.right()
        return files | {"side.py": f"def sleepy(): return {sleepy}\n"}

    with nothing_left_behind(), Engine(lab, Options(jobs=1)) as engine:
        engine.wait_ready()
        records = grade(engine, hand_in("bad", saying(True)), hand_in("good", saying(False)))
    assert set(outcomes(records["bad"]).values()) == {Outcome.NOT_GRADED.value}
    assert set(outcomes(records["good"]).values()) == {Outcome.PASSED.value}


@pytest.mark.slow
def test_a_hand_in_that_nearly_uses_every_limit_does_not_end_its_judge(tmp_path: Path) -> None:
    """Otherwise waiting would earn "not graded" where a wrong answer earns nothing."""
    lab = tiny_lab.build(tmp_path / "lab9_waiting")
    toml = lab.folder / "lab.toml"
    text = toml.read_text(encoding="utf-8")
    toml.write_text(text.replace("wall_seconds = 8", "wall_seconds = 2"), encoding="utf-8")
    hidden = tmp_path / "hidden.safetensors"
    hidden.write_bytes(cases.dump([tiny_lab.case(n, hidden=True) for n in range(3, 9)]))
    waiting = tiny_lab.doing(two="import time; time.sleep(1.2)")
    with nothing_left_behind(), Engine(lab, Options(hidden_cases=hidden, replay=False)) as engine:
        engine.wait_ready()
        record = grade(engine, hand_in("waiting", waiting))["waiting"]
    assert outcomes(record)["test_two"] == Outcome.PASSED.value

"""Where the clock struck: the student's frames of a stack that a worker printed."""

from __future__ import annotations

import linecache
import time
from collections.abc import Iterator

import pytest

from autograder.course import labfile
from autograder.course.records import Frame, HandIn, Outcome
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.sandbox import stacks
from autograder.worker.loader import StudentModules
from tests import hand_ins
from tests.engines import warm

TEXT = """\
def inner(n):
    total = 0
    for _ in range(3):
        while True:
            total += 1
            total -= 1
    return total


def outer():
    return inner(3)
"""
TOLD = """\
  File "/usr/lib/python3.11/threading.py", line 1 in wait
  File "attention.py", line 6 in inner
  File "attention.py", line 11 in outer
  File "<string>", line 1 in <module>
"""
LAB = labfile.load(labfile.find_lab("2"))


def test_the_innermost_stands_at_its_loop_and_the_last_call_at_the_bottom() -> None:
    found = stacks.frames(TOLD, {"attention.py": TEXT}, {})
    assert found == (
        Frame("attention.py", 11, "outer", "return inner(3)"),
        Frame("attention.py", 4, "inner", "while True:"),
    )


def test_lines_are_counted_as_python_counts_them() -> None:
    text = "# a\u2028b\x0c\x85c\r\ndef f():\r    return 1\n"
    (frame,) = stacks.frames('  File "mlp.py", line 3 in f', {"mlp.py": text}, {})
    assert frame.text == "return 1"
    modules = StudentModules({"mlp.py": text}).install()
    try:
        assert linecache.getline("mlp.py", 3) == "    return 1\n"
    finally:
        modules.remove()


@pytest.mark.parametrize(
    "told",
    ["", "nonsense", '  File "mlp.py", line 3 in f', '  File "attention.py", line 99999 in f'],
)
def test_what_is_no_line_of_the_hand_in_is_left_out(told: str) -> None:
    assert stacks.frames(told, {"attention.py": TEXT}, {}) == ()
    assert stacks.frames(TOLD * 9, {"attention.py": "(" * 9999}, {}) == ()


def test_a_stack_that_a_hand_in_makes_up_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    def loop_of(text: str, line: int) -> int:
        parsed.append(line)
        return line

    monkeypatch.setattr(stacks, "_loop_of", loop_of)
    made_up = '  File "attention.py", line 99999 in f\n' * 3000 + TOLD * 3000
    stacks.frames(made_up, {"attention.py": TEXT}, {})
    stacks.frames(TOLD * 3000, {"attention.py": TEXT}, {})
    assert parsed == [6]


def test_a_long_text_is_not_parsed_to_find_a_loop() -> None:
    """Quadratic for the parser of some Pythons; the file need not even be the one that loops."""
    text = "while True:\n    pass\nf'" + "{x}" * 330_000 + "'\n"
    told = '  File "attention.py", line 2 in inner'
    started = time.process_time()
    (frame,) = stacks.frames(told, {"attention.py": text}, {})
    assert frame.line == 2
    assert time.process_time() - started < 2


def test_a_path_may_hold_any_letters() -> None:
    told = '  File "/\\u4f5c\\u4e1a/attention.py", line 2 in inner'
    shown = "/作业/attention.py"
    (frame,) = stacks.frames(told, {"attention.py": TEXT}, {"attention.py": shown})
    assert (frame.file, frame.line) == (shown, 2)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    asked = (check.name for check in LAB.checks if "mlp" in check.name)
    with warm(LAB, Options(jobs=2, checks=("test_repeat_kv_runs", *asked))) as engine:
        yield engine


def repeating(body: str) -> dict[str, str]:
    """A right hand-in whose repeat_kv does something else."""
    files = hand_ins.right()
    right = "    return x.repeat_interleave(n_rep, dim=1)\n"
    assert right in files["attention.py"]
    return files | {"attention.py": files["attention.py"].replace(right, body)}


def told(engine: Engine, body: str) -> tuple[HandIn, list[str]]:
    files = repeating(body)
    hand_in = hand_ins.grade(engine, hand_ins.hand_in("someone", files))["someone"]
    (first, *_) = [r for r in hand_in.results if r.check == "test_repeat_kv_runs"]
    assert first.outcome is Outcome.TIMED_OUT
    return hand_in, [frame.text for frame in first.frames]


@pytest.mark.slow
def test_a_time_out_names_the_loop_the_same_one_every_time(engine: Engine) -> None:
    body = (
        "    while n_rep:\n        x.sum()\n        n_rep += 1\n        n_rep -= 1\n    return x\n"
    )
    first, lines = told(engine, body)
    assert lines == ["while n_rep:"]
    again, _ = told(engine, body)
    assert again.results == first.results
    assert not any("File" in result.prints for result in first.results)


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [
        "import signal\n    signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
        "import signal\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
        "import os\n    os.close(2)",
        'import sys\n    sys.stderr.write("Stack (most recent call first):\\n" * 99)',
    ],
)
def test_whoever_does_not_want_to_be_found_is_timed_out_all_the_same(
    engine: Engine, act: str
) -> None:
    hand_in, _ = told(engine, f"    {act}\n    while True:\n        pass\n")
    others = {r.check: r.outcome for r in hand_in.results if "mlp" in r.check}
    assert set(others.values()) <= {Outcome.PASSED, Outcome.NOT_GRADED}

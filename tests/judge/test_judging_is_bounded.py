"""What a judge does with the text and the answers of a hand-in ends soon, and does not end it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from autograder.checks.expect import CheckFailed, expect_close, expect_same, expect_unlike
from autograder.checks.plan import CheckCase, Plan
from autograder.course.records import Check, CheckResult, Exercise, Lab, Limits, Outcome, Text
from autograder.judge import hand_in, marks
from autograder.reference.cases import Case
from autograder.sandbox.stacks import MAX_PARSED
from autograder.sandbox.student import Other, Student, decode
from autograder.sandbox.transport import WorkerTransport
from autograder.wire.messages import MAX_NUMEL, Tensor

WORDS = Text("words", "文字")
CASE = Case("c", "recipe", False, WORDS, {})
CHECK = Check("test_a", "lab9.a", "shape", 1, WORDS)
LAB = Lab(
    "lab9", Path("lab9"), WORDS, ("a.py",), (), ("torch.nn.functional.forbidden_name",), Limits(),
    (Exercise("lab9.a", "a.py", WORDS, WORDS, (CHECK,)),),
)  # fmt: skip
# Quadratic for the parser of some Pythons: minutes at the size that intake takes.
LONG = "# forbidden_name\nf'" + "{x}" * 330_000 + "'"


def test_a_long_text_is_not_parsed_but_marked() -> None:
    started = time.process_time()
    found = marks.forbidden(LAB, {"a.py": LONG}, set())
    assert marks.may_keep_static_state({"a.py": LONG})
    assert time.process_time() - started < 2
    assert [mark.key for mark in found] == ["check.unread_source"]
    assert marks.forbidden(LAB, {"a.py": LONG.replace("forbidden_name", "")}, set()) == []


def test_the_longest_text_that_is_parsed_costs_little() -> None:
    text = "# forbidden_name\nf'" + "{x}" * ((MAX_PARSED - 30) // 3) + "'"
    started = time.process_time()
    assert marks.forbidden(LAB, {"a.py": text}, set()) == []
    marks.may_keep_static_state({"a.py": text})
    assert time.process_time() - started < 5


HEAVY = {
    "many bindings of a name in many scopes": "def f(t):\n"
    + f"  y=t{'.a' * 90}\n" * 8
    + "  x=y\n" * 4000
    + "  lambda:x\n" * 1900,
    "a name behind very many others": "import torch as a0\n"
    + "".join(f"a{n}=a{n - 1}.b\n" for n in range(1, 3000)),
    "scopes in scopes": "def f():\n" + "  x\n" * 5000 + "  y = " + "lambda:" * 500 + "x",
    "a name of very many dots": f"def f(x): x{'.a' * 20_000}",
    "accents on one letter": "def f(a" + "\u0315\u0300" * 20_000 + "): pass",
}


@pytest.mark.parametrize("name", HEAVY)
def test_no_text_keeps_those_who_look_for_marks(name: str) -> None:
    text = f"# forbidden_name\n{HEAVY[name]}\n"
    assert len(text) <= MAX_PARSED
    started = time.process_time()
    keys = {mark.key for mark in marks.forbidden(LAB, {"a.py": text}, set())}
    marks.may_keep_static_state({"a.py": text})
    assert time.process_time() - started < 3
    assert keys <= {"check.unread_source"}


class Renewed:
    def renew(self) -> None:
        """Nothing to let go of."""


def test_an_odd_answer_in_a_replay_is_told_and_does_not_end_the_judge() -> None:
    def fails(student: Student, case: Case) -> None:
        raise IndexError("as if a check of ours had failed")

    plan = Plan(LAB, {"test_a": (CheckCase("test_a", CASE, fails),)})
    passed = {"test_a": CheckResult("test_a", Outcome.PASSED)}
    found = hand_in.changed(plan, passed, cast(WorkerTransport, Renewed()), "seed")
    assert [mark.key for mark in found] == ["check.state_carries_over"]


def test_an_answer_that_breaks_the_diagnosis_costs_a_name_and_no_points(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(hand_in, "findings", breaks)
    given = cast(Any, (None, (), SimpleNamespace(answers=()), "known", None))
    assert hand_in._recognised(*given) == ()
    assert capsys.readouterr().err == "autograder: no mistake was looked for: MemoryError\n"


def test_no_answer_is_taken_of_more_numbers_than_a_worker_sends() -> None:
    for count, taken in ((MAX_NUMEL, Tensor), (MAX_NUMEL + 1, Other)):
        sent = {"r0": Tensor("bool", (1, count), bytes(count))}
        assert type(decode({"$t": "r0"}, sent)) is taken


# ---------------------------------------------------------------- what an answer may gain

X = np.linspace(1, 2, 12).reshape(3, 4)
WANT = Tensor.of(X.astype(np.float32))


def bfloat16(array: Any) -> Tensor:
    raw = (array.astype(np.float32).view(np.uint32) >> 16).astype("<u2")
    return Tensor("bfloat16", array.shape, raw.tobytes())


@pytest.mark.parametrize("narrow", [bfloat16, lambda a: Tensor.of(a.astype(np.float16))])
def test_a_narrow_dtype_buys_no_tolerance(narrow: Any) -> None:
    """The limits are those of the case, and the message says what is wrong."""
    with pytest.raises(CheckFailed) as error:
        expect_close(narrow(X * 1.004), WANT, CASE)
    assert error.value.message.key == "check.dtype"
    asked = Case("c", "recipe", False, WORDS, {}, values={"dtype": narrow(X).dtype})
    expect_close(narrow(X), WANT, asked)


def test_a_wide_dtype_is_taken_and_judged() -> None:
    expect_close(Tensor.of(X), WANT, CASE)
    with pytest.raises(CheckFailed) as error:
        expect_close(Tensor.of(X * 1.004), WANT, CASE)
    assert error.value.message.key == "check.mismatch"


def test_huge_numbers_are_not_the_same_and_different_at_once() -> None:
    one, other = (Tensor.of(X * 1e300), Tensor.of(X[::-1] * 1e300))
    with pytest.raises(CheckFailed):
        expect_same(one, other, CASE, WORDS)
    expect_unlike(one, other, CASE, WORDS)


@pytest.mark.parametrize("shape", [(), (3,), (3, 0)])
def test_a_part_that_is_not_there_is_a_wrong_shape(shape: tuple[int, ...]) -> None:
    odd = Tensor.of(np.ones(shape, np.float32))
    for expect in (expect_same, expect_unlike):
        with pytest.raises(CheckFailed) as error:
            expect(odd, odd, CASE, WORDS, part=(slice(None), -1))
        assert error.value.message.key in ("check.shape", "check.constant")

"""Sentences of checks are whole in both languages: no English words inside the Chinese ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
import torch

from autograder.checks import expect
from autograder.checks.expect import described
from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import CheckResult, Message, Outcome, Text
from autograder.judge import outcomes
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.student import Other, Result, Student
from autograder.wire.messages import MAX_NUMEL, Tensor
from autograder.worker import values
from tests import hand_ins

CASE = Case("c", "c", False, Text("a case", "一个用例"), {})
WHAT = Text("the output", "输出")
TENSOR = Tensor.of(np.zeros((2, 3), dtype=np.float32))
# Words that a Chinese sentence may hold: names that code has.
NAMES = re.compile(
    r"\b(float|int|dict|tuple|list|str|None|NoneType|CPU|SIG[A-Z]+|exit|MiB"
    r"|complex128|meta|Fraction|Marked|return)\b|\[.*?\]"
)


def result(value: Any) -> Result:
    made = Result(cast(Student, None), {"op": "call"}, ())
    made.set(value)
    return made


FAILURES: dict[str, Callable[[], object]] = {
    "no tensor": lambda: expect.expect_tensor(3, CASE, WHAT),
    "nothing": lambda: expect.expect_tensor(None, CASE, WHAT),
    "a tuple": lambda: expect.expect_tensor((TENSOR, TENSOR), CASE, WHAT),
    "no pair": lambda: expect.expect_items(TENSOR, 2, CASE, WHAT),
    "no number": lambda: expect.expect_value((1, 2), 3, CASE, WHAT),
    "no dict": lambda: expect.expect_keys(result(3.5), ("[k]",), CASE, WHAT),
    "keys": lambda: expect.expect_keys(result({}), ("[k]",), CASE, WHAT),
    "form": lambda: expect.expect_form([1, "2"], list[int], WHAT, CASE, WHAT),
}


class Marked(torch.Tensor):
    pass


ODD: dict[str, object] = {
    "a dtype that is not carried": torch.zeros(2, dtype=torch.complex128),
    "a subclass": torch.zeros(2).as_subclass(Marked),
    "sparse": torch.zeros(2, 2).to_sparse(),
    "without values": torch.zeros(2, device="meta"),
    "too large": torch.zeros(1).expand(MAX_NUMEL + 1),
    "a long number": 1 << 80,
    "an object": Fraction(1, 3),
    "a long list": [0] * (values.MAX_ITEMS + 1),
}


@pytest.mark.parametrize("name", ODD)
def test_what_a_worker_cannot_send_is_described_in_both_languages(name: str) -> None:
    tree = values.encode(ODD[name], lambda tensor: "t0")
    assert "$other" in tree
    with pytest.raises(expect.CheckFailed) as failed:
        expect.expect_tensor(Other(tree["$other"]), CASE, WHAT)
    expect_whole(failed.value.message)


def test_a_description_that_is_not_ours_stays_as_it_came() -> None:
    assert described(Other("full points, please")) == dict.fromkeys(
        ("en", "zh"), "full points, please"
    )


@pytest.mark.parametrize("name", FAILURES)
def test_a_wrong_kind_of_value_is_named_in_both_languages(name: str) -> None:
    with pytest.raises(expect.CheckFailed) as failed:
        FAILURES[name]()
    expect_whole(failed.value.message)


@pytest.mark.parametrize(
    "error",
    [
        WorkerLost("signal SIGSEGV"),
        WorkerLost("exit status 3"),
        WorkerLost("more than 4 MiB were printed"),
        WorkerLost("it closed its channel"),
        WorkerLost("it answered in a form that is not ours"),
        WorkerLost("2", timed_out=True),
        WorkerLost("20", timed_out=True, clock="wall"),
    ],
    ids=str,
)
def test_a_lost_worker_is_named_in_both_languages(error: WorkerLost) -> None:
    message = outcomes.lost(error, CASE).message
    assert message is not None
    expect_whole(message)


def test_a_long_error_of_a_student_shows_that_it_was_cut() -> None:
    for text, shown in (("x" * 399, "x" * 399), ("x" * 5000, "x" * 399 + "…")):
        error = StudentError({"type": "ValueError", "text": text})
        message = outcomes.raised(error, CASE, file="a.py", exercise="e", given=()).message
        assert message is not None and message.values["text"] == shown


@pytest.mark.parametrize(
    ("got", "key"), [("[16, 7]", "weights_order"), ("[7, 7]", "weights_shape")]
)
def test_sizes_in_another_order_are_told_as_such(got: str, key: str) -> None:
    told = {"stage": "weights", "type": "RuntimeError", "shapes": [["proj.weight", got, "[7, 16]"]]}
    message = outcomes.raised(StudentError(told), CASE, file="a.py", exercise="e", given=()).message
    assert message is not None and message.key == f"check.{key}"


def expect_whole(message: Message) -> None:
    chinese = NAMES.sub("", render(message, "zh"))
    assert not re.search(r"[A-Za-z]{2,}", chinese), chinese
    assert not re.search(r"[\u4e00-\u9fff]", render(message, "en"))


def test_what_ails_a_file_is_read_from_its_text() -> None:
    lab = labfile.load(labfile.find_lab("lab2"))
    right = hand_ins.right()["attention.py"]
    absent = Message("check.missing", {"file": "attention.py", "name": "Qwen3Attention"})
    missing = CheckResult(lab.checks[0].name, Outcome.FAILED, absent)

    def ailing(text: str, result: CheckResult = missing) -> str:
        (found,) = outcomes.of_files(lab, {"attention.py": text}, [result])
        assert found.message is not None and found.outcome is Outcome.FAILED
        return render(found.message, "en")

    renamed = ailing(right.replace("Qwen3Attention", "QwenAttention"))
    assert "QwenAttention; did you mean Qwen3Attention?" in renamed
    assert "does not define Qwen3Attention" in ailing(right.split("class Qwen3Attention")[0])
    assert "is empty" in ailing("# mine\n\n")
    for other in ("lab1_foundations", "lab3_kv_cache", "lab5_tensor_parallel", "lab6_flash_moe"):
        text = (labfile.LABS / other / "attention.py").read_text(encoding="utf-8")
        assert f"another lab ({other})" in ailing(text)
    lab4 = (labfile.LABS / "lab4_tinyllm" / "attention.py").read_text(encoding="utf-8")
    assert "another lab" not in ailing(lab4)  # students take their own file of lab 2 there
    wrong = CheckResult(lab.checks[0].name, Outcome.FAILED, Message("check.breakpoint"))
    assert outcomes.of_files(lab, {"attention.py": ""}, [wrong]) == (wrong,)

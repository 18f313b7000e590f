"""What checks say of costs: kept, broken, or not to be known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autograder.checks.costs import (
    MIB,
    expect_bytes,
    expect_flops,
    expect_growth,
    expect_within_cap,
)
from autograder.checks.expect import CheckFailed, NotCounted
from autograder.course.messages import render
from autograder.course.records import Text
from autograder.diagnosis.items import Answer, trace_of
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor

CASE = Case("c", "c", False, Text("a case", "一个用例"), {})
WHAT, WHY = Text("the text", "文本"), Text("why.", "为何。")
COSTS = {
    "peak": 100, "alive": 3, "flops": 1000, "over": False, "fenced": True, "largest": 80,
    "operator": "bmm", "kind": "float32", "file": "attention.py", "line": 12, "shape": [4, 5],
    "kept": False,
}  # fmt: skip
ANSWER = Tensor.of(np.arange(6, dtype=np.float32).reshape(2, 3))


def result(value: Any = ANSWER, **costs: Any) -> Result:
    made = Result(Student(None), {"op": "call", "measure": 0}, ())  # type: ignore[arg-type]
    made.set([value, COSTS | costs])
    return made


def grows(long: Result, short: Result | None = None, least: float = 1000) -> None:
    expect_growth(
        short or result(), long, CASE, WHAT, times=4, most=5, least=least, square=20, why=WHY
    )


def sentences(failed: pytest.ExceptionInfo[CheckFailed]) -> tuple[str, str]:
    return render(failed.value.message, "en"), render(failed.value.message, "zh")


def test_growth_up_to_the_limit_is_kept() -> None:
    grows(result(peak=500))


def test_growth_beyond_it_names_the_tensor_its_operator_and_the_line() -> None:
    long = result(peak=1300)
    with pytest.raises(CheckFailed) as failed:
        grows(long)
    for text in sentences(failed):
        for part in ("13.0", "[4, 5] float32", "bmm", "attention.py", "12", "3"):
            assert part in text
    assert long.verdict == "grows, one float32"


def test_many_small_tensors_are_told_from_a_large_one() -> None:
    long = result(peak=1300, shape=[2, 5])
    with pytest.raises(CheckFailed):
        grows(long)
    assert long.verdict == "grows, many"


@pytest.mark.parametrize(
    ("costs", "part"),
    [
        ({"line": 0, "file": ""}, "made by bmm;"),
        ({"operator": "", "line": 0}, "not visible"),
        ({"shape": []}, "asked for by bmm (attention.py, line 12)"),
        ({"kept": True}, "kept ready"),
    ],
)
def test_what_is_not_known_is_not_said(costs: dict[str, Any], part: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        grows(result(peak=1300, **costs))
    assert part in sentences(failed)[0]
    assert "line 0" not in sentences(failed)[0]


def test_too_little_visible_work_is_no_zero() -> None:
    with pytest.raises(NotCounted):
        grows(result(peak=100, flops=100))
    with pytest.raises(NotCounted):
        grows(result(peak=100), short=result(peak=0), least=0)
    with pytest.raises(NotCounted):
        expect_flops(result(flops=3), CASE, needed=1000, most=1, least=1000, why=WHY)
    with pytest.raises(NotCounted):
        expect_bytes(result(flops=3), CASE, most=1000, least=1000, why=WHY)


@pytest.mark.parametrize("number", [0.0, 1.0])
def test_one_number_everywhere_costs_nothing_and_is_no_answer(number: float) -> None:
    constant = Tensor.of(np.full((2, 3), number, np.float32))
    for value in (constant, (ANSWER, constant)):
        with pytest.raises(CheckFailed) as failed:
            expect_flops(result(value), CASE, needed=1000, most=1, least=1000, why=WHY)
        assert failed.value.message.key == "check.constant"


def test_flops_and_bytes_are_compared() -> None:
    expect_flops(result(), CASE, needed=1000, most=1.0, least=900, why=WHY)
    expect_bytes(result(), CASE, most=100, least=1000, why=WHY)
    with pytest.raises(CheckFailed) as failed:
        expect_flops(result(), CASE, needed=500, most=1.1, least=500, why=WHY)
    assert "2.00" in sentences(failed)[0]
    with pytest.raises(CheckFailed) as failed:
        expect_bytes(result(), CASE, most=99, least=1000, why=WHY)
    assert "[4, 5] float32" in sentences(failed)[1]


def test_only_what_a_known_mistake_takes_goes_by_its_word() -> None:
    said = {}
    for flops, largest in ((8000, 400), (1400, 399)):
        made = result(flops=flops, largest=largest, peak=500)
        with pytest.raises(CheckFailed):
            expect_flops(made, CASE, needed=1000, most=1.1, least=1000, why=WHY)
        said[flops] = [made.verdict]
        with pytest.raises(CheckFailed):
            expect_bytes(made, CASE, most=100, least=1000, why=WHY)
        said[flops].append(made.verdict)
    assert said[8000] == ["works too much", "holds too much"]
    assert said[1400] == ["works 1.40 times", "holds a little too much"]


def test_a_cap_holds_with_a_fence_and_without() -> None:
    assert expect_within_cap(result(), CASE, cap=MIB, least=1000) is ANSWER
    # The system kept the limit: what was not seen had no more either.
    assert expect_within_cap(result(flops=0), CASE, cap=MIB, least=1000) is ANSWER
    with pytest.raises(NotCounted):
        expect_within_cap(result(flops=0, fenced=False), CASE, cap=MIB, least=1000)
    with pytest.raises(CheckFailed) as failed:
        expect_within_cap(result(None, over=True), CASE, cap=64 * MIB, least=1000)
    assert all("64 MiB" in text for text in sentences(failed))


def test_costs_are_compared_by_what_is_said_of_them() -> None:
    """Bytes of two styles are never equal: they must not tell two mistakes apart."""
    one, other = result(peak=1), result(peak=2)
    traces = [trace_of([Answer("check", CASE, [each])]) for each in (one, other)]
    assert traces[0].keys() == traces[1].keys()
    assert not any("cost" in key for key in traces[0])
    one.verdict = "grows, many"
    (key,) = trace_of([Answer("check", CASE, [one])]).keys() - traces[1].keys()
    assert key.endswith("/cost")

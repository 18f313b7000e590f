"""Checks of ``softmax`` and ``causal_mask``."""

from __future__ import annotations

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, expect_close, expect_dtype, expect_same, expect_shape
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from labs.lab1_foundations.checks.calls import COARSE, THREE_ROUNDINGS, expect_kept, expect_sees

MASK = Text("the mask", "掩码")


@cases("softmax_last")
def test_softmax_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    # Written down here, so that a forbidden function is seen however it was reached.
    result = student.call("attention.softmax", case["x"], dim=-1, operators=True)
    expect_shape(result, case["x"].shape, case)


@checks("""
    test_softmax_values: softmax_last
        Along the last axis the weights are exp(x) over its sum.
        沿最后一个轴，权重等于 exp(x) 除以其总和。

    test_softmax_blocked: softmax_blocked
        A logit of -inf gets the weight 0.
        logit 为 -inf 时权重为 0。
    """)
def _expect_softmax(student: Student, case: Case) -> None:
    expect_close(student.call("attention.softmax", case["x"], -1), case["y"], case)


@cases("softmax_axes", "softmax_line", "softmax_thin")
def test_softmax_axes(student: Student, case: Case) -> None:
    """It works along the axis that is given, counted from either end.

    沿指定的轴计算，轴可以从前数，也可以从后数。
    """
    sides = len(case["x"].shape)
    results = {
        dim: student.call("attention.softmax", case["x"], dim) for dim in range(-sides, sides)
    }
    for dim, result in results.items():
        what = Text(f"the output for dim={dim}", f"dim={dim} 时的输出")
        expect_close(result, case[f"y{dim % sides}"], case, what)


@cases("softmax_large")
def test_softmax_large(student: Student, case: Case) -> None:
    """Logits of ±10,000 neither overflow nor vanish.

    logits 为 ±10,000 时既不上溢也不消失。
    """
    result = student.call("attention.softmax", case["x"], -1)
    expect_close(result, case["y"], case, limit=COARSE)


@cases(
    "softmax_bfloat16",
    "softmax_float16",
    "softmax_blocked",
    "softmax_ahead_bfloat16",
    "softmax_ahead_float16",
)
def test_softmax_dtype(student: Student, case: Case) -> None:
    """It keeps the dtype, computes in float32 and leaves its input alone.

    保持数据类型，用 float32 计算，且不修改输入。
    """
    narrow, wide = expect_kept(student, case, "attention.softmax", -1)
    if "small" in case.tensors:
        dtype, part = case["dtype"], (case["small"].array,)
        why = Text(
            f"in {dtype} they are those of float32, rounded once, at the end.",
            f"{dtype} 下的权重应等于 float32 的权重，只在最后舍入一次。",
        )
        what = Text("the small weights", "较小的权重")
        expect_same(narrow, wide, case, why, what, part=part, limit=THREE_ROUNDINGS[dtype])


@cases("mask_square")
def test_mask_runs(student: Student, case: Case) -> None:
    """It runs and gives [q_len, kv_len].

    能运行，形状为 [q_len, kv_len]。
    """
    result = student.call("attention.causal_mask", case["q_len"], case["kv_len"])
    expect_shape(result, case["allowed"].shape, case, MASK)


@cases("mask_square")
def test_mask_dtype(student: Student, case: Case) -> None:
    """Its entries are bool.

    元素类型为 bool。
    """
    result = student.call("attention.causal_mask", case["q_len"], case["kv_len"])
    expect_dtype(result, "bool", case, MASK)


@checks("""
    test_mask_square: mask_square
        With as many queries as keys, each sees itself and everything before it.
        查询与键一样多时，每个查询看到自己及之前的一切。

    test_mask_rectangular: mask_rectangular mask_long
        With fewer queries than keys, the last query still sees the last key.
        查询少于键时，最后一个查询仍能看到最后一个键。

    test_mask_single: mask_single
        A single query, the newest token, sees every key.
        只有一个查询（最新的 token）时，它看到所有的键。
    """)
def _expect_mask(student: Student, case: Case) -> None:
    expect_sees(student.call("attention.causal_mask", case["q_len"], case["kv_len"]), case)

"""Checks of ``repeat_kv``."""

from __future__ import annotations

import numpy as np

from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor

INPUT = Text("x", "x")


@cases("repeating")
def test_repeat_kv_runs(student: Student, case: Case) -> None:
    """It runs and returns n_rep times as many heads.

    能运行，返回 n_rep 倍的头数。
    """
    expect_shape(
        student.call("attention.repeat_kv", case["x"], case["times"]), case["y"].shape, case
    )


@cases("repeating")
def test_repeat_kv_order(student: Student, case: Case) -> None:
    """The copies of a head stand side by side: 0 0 0 1 1 1.

    同一个头的副本相邻排列：0 0 0 1 1 1。
    """
    result = student.call("attention.repeat_kv", case["x"], case["times"])
    first = Text(
        "head 0 of the output, which is head 0 of x with all tokens in their order,",
        "输出的第 0 个头（即 x 的第 0 个头，token 次序不变）",
    )
    expect_close(result, case["y"], case, first, part=(slice(None), 0))
    expect_close(result, case["y"], case)


@cases("repeating")
def test_repeat_kv_once(student: Student, case: Case) -> None:
    """n_rep = 1 changes nothing.

    n_rep = 1 时不改变任何内容。
    """
    expect_close(student.call("attention.repeat_kv", case["x"], 1), case["x"], case)


@cases("repeating")
def test_repeat_kv_dtype(student: Student, case: Case) -> None:
    """It keeps the dtype and leaves its input alone.

    保持数据类型，且不修改输入。
    """
    x = Tensor.of(case["x"].array.astype(np.float16))
    result = student.call("attention.repeat_kv", x, case["times"], echo=True)
    value, args, _ = expect_items(result, 3, case)
    expect_dtype(value, "float16", case)
    expect_unchanged(args[0], x, case, INPUT)

"""Checks of ``Embedding`` and ``sinusoidal_positions``."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    Limit,
    Tensor,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_parameter,
    expect_shape,
    expect_unchanged,
    expect_value,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student

NAME = "tokens.Embedding"
IDS = Text("the ids", "编号")


@cases("embedding_lookup")
def test_embedding_lookup(student: Student, case: Case) -> None:
    """It takes the rows that are asked for, also that of padding; no other row matters.

    取出所要的行（padding 也一样），其他行没有影响。
    """
    plain = student.new(NAME, *case["sizes"], weights=case.weights)
    padded = student.new(NAME, *case["sizes"], padding_idx=case["padding"], weights=case.weights)
    narrow = student.new(NAME, *case["sizes"], weights=case.weights, dtype="bfloat16")
    result = student.call(plain, case["ids"], echo=True)
    other, half = padded(case["ids"]), narrow(case["ids"])
    value, (after,), _ = expect_items(result, 3, case)
    expect_close(value, case["y"], case)
    expect_unchanged(after, case["ids"], case, IDS)
    expect_close(
        other, case["y"], case, Text("the output with padding_idx", "有 padding_idx 时的输出")
    )
    expect_dtype(half, "bfloat16", case)


@cases("embedding_padding", "embedding_padding_zero")
def test_embedding_padding(student: Student, case: Case) -> None:
    """A new table is N(0, 1), but for a row of zeros for padding, which gets no gradient.

    新建的表服从 N(0, 1)，只有 padding 行为零；padding 行没有梯度。
    """
    sizes, padding = case["sizes"], case["padding"]
    new = student.new(NAME, *sizes, padding_idx=padding)
    tables = new, student.new(NAME, *sizes)
    filled = [
        student.call("torch.count_nonzero", student.new("builtins.getattr", made, "weight"), 1)
        for made in tables
    ]
    wide = student.new("builtins.getattr", student.new(NAME, 400, 25), "weight")
    spread = student.call("torch.round", student.new("torch.std", wide), decimals=1)
    held = student.new(NAME, *sizes, padding_idx=padding, weights=case.weights)
    slope = student.call("labs.given.gradient.parameter_gradient", held, "weight", case["ids"])
    rows, dim = sizes
    for counts, zeros, en, zh in zip(
        filled, (padding, None), ("with", "without"), ("有", "无"), strict=True
    ):
        for row, count in enumerate(expect_shape(counts, [rows], case).array.tolist()):
            numbers = Text(
                f"the count of numbers other than 0 in row {row} of a new table {en} padding_idx",
                f"新建的表（{zh} padding_idx）第 {row} 行中非零数的个数",
            )
            expect_value(count, 0 if row == zeros else dim, case, numbers)
    what = Text(
        "the standard deviation of a new table [400, 25], to one decimal place,",
        "新建的表 [400, 25] 的标准差（保留一位小数）",
    )
    expect_close(spread, Tensor.of(np.float32(1)), case, what, limit=Limit(0.05, 0.05))
    what = Text("the gradient of the table, of the sum of what comes out,", "输出之和对表的梯度")
    expect_close(slope, case["slope"], case, what)
    expect_parameter(student, new, "weight", case)


@checks("""
    test_positions_runs: positions_first
        It runs: float32 [length, dim], and position 0 has sine 0 and cosine 1.
        能运行：float32 [length, dim]，位置 0 的正弦为 0，余弦为 1。

    test_positions_values: positions_table
        Sines and cosines alternate, each pair slower than the one before.
        正弦与余弦交替，每一对都比前一对更慢。
    """)
def _expect_positions(student: Student, case: Case) -> None:
    result = student.call("tokens.sinusoidal_positions", case["length"], case["dim"])
    expect_dtype(result, "float32", case)
    if case["length"] > 1:  # its numbers can be worked out by hand
        row = Text("the row of position 1", "位置 1 的那一行")
        expect_close(result, case["y"], case, row, part=(1,))
    expect_close(result, case["y"], case)

"""Checks of ``build_attention_mask`` and ``build_position_ids``."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_shape,
    expect_unchanged,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Result, Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import like

BLOCKED = Text("the mask (1: blocked)", "掩码（1 表示屏蔽）")
POSITIONS = Text("the positions", "位置")
LEAST = -3.4e38  # about finfo.min of float32 and bfloat16


def _mask(student: Student, case: Case, dtype: str = "float32") -> Result:
    """The mask in parts of the least number: 0 where a query may look and 1 where not."""
    path = "model.build_attention_mask"
    mask = student.new(path, case["keep"], case["queries"], Dtype(dtype))
    return student.call("labs.given.standin.blocked", mask)


@checks("""
    test_mask_causal: masks_plain
        Without padding it is the causal mask: 0, and the least finite number above the diagonal.
        没有填充时就是因果掩码：允许处为 0，对角线上方为最小的有限数。

    test_mask_left: masks_left
        Padding on the left is hidden; as a query it has only itself to see.
        左侧的填充被屏蔽；它作为查询时，看得到的只有自己。

    test_mask_right: masks_right
        Padding on the right is hidden, too.
        右侧的填充同样被屏蔽。

    test_mask_cached: masks_cached masks_cached_right
        Fewer queries than keys: the queries are the last ones.
        查询少于键：查询是最后几个 token。
    """)
def _expect_mask(student: Student, case: Case, dtype: str = "float32") -> None:
    result = _mask(student, case, dtype)
    expect_dtype(result, dtype, case)
    parts = expect_shape(result, case["blocked"].shape, case).array.astype(np.float64)
    others = parts[(parts > 0) & ~((parts > 0.9) & (parts < 1.1))]
    if others.size:
        least = Text(f"finfo({dtype}).min", f"finfo({dtype}).min")
        got = float(f"{LEAST * others[0]:.2g}")
        raise reject(got, least, case, Text("what blocks a key", "用于屏蔽键的值"))
    expect_close(result, case["blocked"], case, BLOCKED)


@cases("masks_plain")
def test_mask_runs(student: Student, case: Case) -> None:
    """It runs and gives [B, 1, query_len, K].

    能运行，得到 [B, 1, query_len, K]。
    """
    expect_shape(_mask(student, case), case["blocked"].shape, case)


@cases("masks_left")
def test_mask_dtype(student: Student, case: Case) -> None:
    """If bfloat16 is asked for, it is bfloat16, with bfloat16's own lowest number.

    要求 bfloat16：结果为 bfloat16，使用它自己的最小数。
    """
    _expect_mask(student, case, "bfloat16")
    given = case["keep"], case["queries"], Dtype("bfloat16")
    _expect_kept(student.call("model.build_attention_mask", *given, echo=True), case)


def _expect_kept(result: Result, case: Case) -> Any:
    """What a call gives that has left the mask of tokens alone."""
    value, args, _ = expect_items(result, 3, case)
    expect_unchanged(args[0], case["keep"], case, Text("attention_mask", "attention_mask"))
    return value


def _positions(student: Student, case: Case) -> Tensor:
    result = student.call("model.build_position_ids", case["keep"], case["queries"], echo=True)
    tensor = expect_shape(_expect_kept(result, case), case["positions"].shape, case, POSITIONS)
    if not tensor.dtype.startswith("int"):
        raise reject(tensor.dtype, Text("integers", "整数"), case, POSITIONS)
    return tensor


@cases("masks_plain")
def test_positions_runs(student: Student, case: Case) -> None:
    """It runs and gives integers [B, query_len].

    能运行，得到整数 [B, query_len]。
    """
    _positions(student, case)


@checks("""
    test_positions_plain: masks_plain
        Without padding tokens are counted from 0.
        没有填充时，从 0 开始计数。

    test_positions_left: masks_left masks_right
        The first token of a row is number 0, on whichever side the padding is; none is negative.
        无论填充在哪一侧，每行的第一个 token 都是 0 号，没有负数。

    test_positions_cached: masks_cached
        With a cache, counting goes on: the last query_len positions.
        有缓存时继续计数：取最后 query_len 个位置。
    """)
def _expect_positions(student: Student, case: Case) -> None:
    """Right where a token is no padding, and nowhere negative."""
    real = case["real"].array.astype(bool)
    found = _positions(student, case).array
    got, want = (np.where(real, places, 0) for places in (found, case["positions"].array))
    expect_close(Tensor.of(got), like(case["positions"], want), case, POSITIONS)
    if (found < 0).any():
        lowest = Text("the lowest position", "最小的位置")
        raise reject(int(found.min()), Text("0 or more", "0 或更大"), case, lowest)

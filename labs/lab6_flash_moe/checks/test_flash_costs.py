"""Checks of what ``flash_attention`` costs: counted in the process that runs it, never timed.

The limits beside what was measured with ten right styles (tiled both ways, all queries by blocks
of keys, some queries by all keys, row by row, head by head, in place, merged by log-sum-exp, under
inference_mode, torch's own function) and with wrong ones:

* growth of peak live bytes at four times the length, limit 5: right 1.2 to 4.2; a table of
  booleans 13.7, of scores 15.3, all tiles kept 11.9.
* FLOPs of causal attention over those of the same code with nothing hidden, limit 0.75: right
  0.57 to 0.67; all tiles 1.
* bytes at most in a long call, limit 64 MiB: right 0.2 to 12 MiB; a table of scores has 64 MiB by
  itself, and a softmax the same again. (Of address space, right styles take up to 96 MiB, and the
  process has 192 MiB left.)
"""

from __future__ import annotations

import numpy as np

from autograder.checks.costs import MIB, expect_flops, expect_growth, expect_within_cap, measured
from autograder.checks.expect import OUTPUT, cases, expect_shape
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor

MOST_GROWTH = 5.0
MOST_FLOPS = 0.75
CAP = 64 * MIB
TIMES = 4


def _long(case: Case, q_times: int, kv_times: int) -> list[Tensor]:
    """The case's q, k and v, repeated along the sequence."""
    return [
        Tensor.of(np.tile(case[name].array, (1, 1, times, 1)))
        for name, times in zip("qkv", (q_times, kv_times, kv_times), strict=True)
    ]


def _seen(q_len: int, kv_len: int) -> int:
    """Pairs of a query and a key that it sees, causally."""
    return sum(kv_len - q_len + row + 1 for row in range(q_len))


def _measured(
    student: Student, case: Case, qkv: list[Tensor], *, causal: bool, cap: int = 0
) -> Result:
    blocks = case["blocks"]
    return student.call("attention.flash_attention", *qkv, causal, *blocks, measure=cap)


@cases("flash_growth")
def test_flash_growth(student: Student, case: Case) -> None:
    """At four times the length, memory grows about four times, not sixteen.

    长度变为四倍时，内存约增长四倍，而不是十六倍。
    """
    short = _measured(student, case, _long(case, 1, 1), causal=True)
    qkv = _long(case, TIMES, TIMES)
    long = _measured(student, case, qkv, causal=True)
    (_, heads, rows, size), columns = qkv[0].shape, qkv[1].shape[2]
    expect_shape(measured(long, case)[0], qkv[0].shape, case, OUTPUT)
    what = Text("queries and keys", "查询与键")
    expect_growth(
        short,
        long,
        case,
        what,
        times=TIMES,
        most=MOST_GROWTH,
        least=4 * size * heads * _seen(rows, columns),
        square=rows * columns,
        why=Text(
            "Memory should grow with the length, not with its square.",
            "内存应随长度增长，而不是随长度的平方增长。",
        ),
    )


@cases("flash_skips")
def test_flash_skips(student: Student, case: Case) -> None:
    """With causal=True, tiles that no query sees are not computed.

    因果时，不计算没有查询能看到的块。
    """
    qkv = _long(case, 1, 1)
    result = _measured(student, case, qkv, causal=True)
    whole = _measured(student, case, qkv, causal=False)
    (_, heads, rows, size), columns = qkv[0].shape, qkv[1].shape[2]
    expect_shape(measured(result, case)[0], qkv[0].shape, case, OUTPUT)
    why = Text(
        "the comparison is with what your code takes where nothing is hidden; a tile whose first "
        "key comes behind the last query's own place needs no product at all.",
        "比较基准是没有屏蔽时你的代码的计算量；若一块的第一个键在最后一个查询的位置之后，"
        "则不需要任何乘法。",
    )
    full = 4 * size * heads * rows * columns  # two products over all tiles
    expect_flops(
        result,
        case,
        # Whoever computes scores twice, to go without sums that are scaled, has three products.
        needed=min(max(measured(whole, case)[1].flops, full), 2 * full),
        most=MOST_FLOPS,
        least=4 * size * heads * _seen(rows, columns),
        why=why,
    )


@cases("flash_cap")
def test_flash_cap(student: Student, case: Case) -> None:
    """1024 queries and 16384 keys fit into 64 MiB.

    1024 个查询与 16384 个键，内存不超过 64 MiB。
    """
    qkv = _long(case, 8, 32)
    result = _measured(student, case, qkv, causal=False, cap=CAP)
    (_, heads, rows, size), columns = qkv[0].shape, qkv[1].shape[2]
    value = expect_within_cap(result, case, cap=CAP, least=4 * size * heads * rows * columns)
    expect_shape(value, qkv[0].shape, case, OUTPUT)

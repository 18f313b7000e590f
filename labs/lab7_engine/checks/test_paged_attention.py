"""Checks of ``paged_attention``: tensors in, tensors out; no pool or table is needed.

Memory, in float16: bytes at the peak that eight times as many sequences, or as large a pool, take
on top, over the bytes of the keys on top, limit 0.4. Nine right styles 0.05 and 0; the keys of all
sequences gathered at once 1, the whole pool in float32 4, its kv heads repeated 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.costs import expect_growth, measured
from autograder.checks.expect import (
    OUTPUT,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor

NAMES = ("q", "k", "v", "tables", "contexts", "cu")
SHARE = 0.4
LARGE = Limit(1e-4, 1e-3)  # scores of hundreds, as float32 rounds them
TIMES = 8


def _paged(
    student: Student, case: Case, changed: dict[str, Tensor] | None = None, **options: Any
) -> Result:
    given = ((changed or {}).get(name) or case[name] for name in NAMES)
    return student.call("attention.paged_attention", *given, **options)


@cases("paged_core")
def test_paged_runs(student: Student, case: Case) -> None:
    """It runs on prompts, chunks and single tokens in one call, and gives q's shape.

    在一次调用中处理提示、分段与单个 token，输出形状与 q 相同。
    """
    expect_shape(_paged(student, case, operators=True), case["q"].shape, case)


@checks("""
    test_paged_partial: paged_partial
        Blocks are read in the order of the table, the last one only as far as it holds tokens.
        按块表的顺序读取各块，最后一个块只读存有 token 的位置。

    test_paged_full: paged_full
        A context that ends with a block is read to its last token, and no further.
        上下文恰好在块末尾结束时，读到最后一个 token 为止。

    test_paged_chunk: paged_chunk
        A query of a chunk sees all tokens before it, and none after it.
        一段中的查询能看到之前的所有 token，看不到之后的。

    test_paged_scores: paged_scores paged_large
        Products, scale and softmax are those of plain attention; scores of hundreds do no harm.
        乘积、缩放与 softmax 与普通注意力相同；数百大小的分数不会出错。

    test_paged_value_heads: paged_value_heads
        Each query head gets the values of its own kv head.
        每个查询头使用与其对应的键值头的值。
    """)
def _expect_numbers(student: Student, case: Case) -> None:
    limit = LARGE if case.recipe == "paged_large" else None
    expect_close(_paged(student, case), case["y"], case, limit=limit)


@cases("paged_key_heads")
def test_paged_key_heads(student: Student, case: Case) -> None:
    """Each query head looks at the keys of its own kv head.

    每个查询头使用与其对应的键值头的键。
    """
    what = Text("the heads whose keys are zero", "键为零的那些头")
    heads = (slice(None), slice(case["first"], case["last"]))
    expect_close(_paged(student, case), case["y"], case, what, part=heads)


@cases("paged_bfloat16")
def test_paged_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out, with scores and softmax in float32.

    输入输出为 bfloat16，分数与 softmax 用 float32。
    """
    result = _paged(student, case)
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("paged_core")
def test_paged_parity(student: Student, case: Case) -> None:
    """The numbers equal those of attention without blocks, wherever in the pool blocks lie.

    无论块在池中的哪个位置，数值都与不分块的注意力一致。
    """
    before = _paged(student, case)
    turn = np.roll(np.arange(case["k"].shape[0]), 1)  # where each block's number goes
    tables = case["tables"].array
    moved = np.where(tables < 0, tables, turn[tables])
    wide = np.concatenate((moved, np.full((len(moved), 2), -1)), axis=1)
    pools = {}
    for name in "kv":
        array = np.empty_like(case[name].array)
        array[turn] = case[name].array
        pools[name] = Tensor.of(array)
    after = _paged(student, case, {**pools, "tables": Tensor.of(wide)})
    expect_close(before, case["y"], case)
    why = Text(
        "the blocks are the same, under other numbers, and the table ends with more columns of -1.",
        "块相同，只是编号不同，块表末尾多几列 -1。",
    )
    expect_same(after, before, case, why)


@cases("paged_core")
def test_paged_pure(student: Student, case: Case) -> None:
    """It leaves its inputs alone, and the same call gives the same result.

    不修改输入，相同的调用得到相同的结果。
    """
    first, second = _paged(student, case, echo=True), _paged(student, case)
    value, args, _ = expect_items(first, 3, case)
    for number, name in enumerate(NAMES):
        expect_unchanged(args[number], case[name], case, Text(name, name))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@cases("paged_memory")
def test_paged_memory(student: Student, case: Case) -> None:
    """Eight times as many sequences, or a pool eight times as large, take hardly more memory.

    序列数或池的大小变为八倍，内存几乎不增加。
    """
    rows = case["tables"].shape[0]
    more = {
        "q": Tensor.of(np.tile(case["q"].array, (TIMES, 1, 1))),
        "tables": Tensor.of(np.tile(case["tables"].array, (TIMES, 1))),
        "contexts": Tensor.of(np.tile(case["contexts"].array, TIMES)),
        "cu": Tensor.of(np.arange(TIMES * rows + 1, dtype=np.int32)),
    }
    larger = {name: Tensor.of(np.tile(case[name].array, (TIMES, 1, 1, 1))) for name in "kv"}
    one = _paged(student, case, measure=0)
    many, wide = (_paged(student, case, changed, measure=0) for changed in (more, larger))
    for result, shape in ((many, more["q"].shape), (wide, case["q"].shape)):
        expect_shape(measured(result, case)[0], shape, case, OUTPUT)
    pool = int(np.prod(case["k"].shape))
    why = Text(
        "Take one sequence after the other, and of the pool only its own blocks.",
        "逐个处理序列，并且只从池中取它自己的块。",
    )
    own = int(case["contexts"].array.sum()) * int(np.prod(case["k"].shape[2:]))
    for result, what, numbers in (
        (many, Text("the list of sequences", "序列的列表"), own),
        (wide, Text("the pool", "池"), pool),
    ):
        more_bytes = 2 * (TIMES - 1) * numbers  # of the keys that came on top
        most = 1 + SHARE * more_bytes / max(measured(one, case)[1].peak, 1)
        expect_growth(
            one, result, case, what, times=TIMES, most=most, least=0, square=pool, why=why
        )

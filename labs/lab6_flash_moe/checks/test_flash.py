"""Checks of ``flash_attention``: its numbers, each check blind to other families."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
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
from autograder.sandbox.student import Named, Student
from autograder.wire.messages import Tensor
from labs.lab6_flash_moe.checks.calls import expect_parity, flash, one_after_the_other

TIMES = 256  # 5120 keys at least
# What many tiles have to do as one does, by case.
TILES = {
    "flash_tiles": Text(
        "in many tiles as in one. All scores are measured from the largest so far.",
        "分块与不分块应一致。所有分数都以目前的最大值为基准。",
    ),
    "flash_rising": Text(
        "in many tiles as in one. Here every tile brings a new maximum, to which the sum "
        "and the output so far are to be scaled.",
        "分块与不分块应一致。这里每一块都带来新的最大值，目前的和与输出都要按它重新缩放。",
    ),
    "flash_falling": Text(
        "in many tiles as in one. Here no later tile brings a new maximum: each of them "
        "only adds to the sum and to the output, which is divided after the last one.",
        "分块与不分块应一致。这里后面的块都不带来新的最大值：每一块只往和与输出上累加，"
        "最后一块之后才除。",
    ),
}
# Which keys are hidden, by case.
HIDDEN = {
    "flash_causal": Text(
        "query i sees keys up to i + kv_len - q_len.", "查询 i 最多能看到键 i + kv_len - q_len。"
    ),
    "flash_deep": Text(
        "query i sees keys up to i + kv_len - q_len, and what hides the others has to lie below "
        "any score, as -inf does.",
        "查询 i 最多能看到键 i + kv_len - q_len；屏蔽其余键的数必须低于任何分数，例如 -inf。",
    ),
}


def _part(tensor: Tensor, *place: object) -> Tensor:
    return Tensor.of(tensor.array[place])  # type: ignore[index]


@cases("flash_core", "flash_causal")
def test_flash_runs(student: Student, case: Case) -> None:
    """It runs, causal or not, and gives [B, heads, q_len, head_dim].

    无论是否因果都能运行，输出形状为 [B, heads, q_len, head_dim]。
    """
    # Written down here, so that a forbidden function is seen however it was reached.
    expect_shape(flash(student, case, operators=True), case["q"].shape, case)


@checks("""
    test_flash_one_tile: flash_one_tile
        In one tile of all queries and all keys it is plain attention: scale, softmax, values.
        一块包含全部查询与全部键时，就是普通注意力：缩放、softmax、取值。

    test_flash_ragged: flash_ragged
        Lengths that are no multiples of the blocks lose nothing and add nothing.
        长度不是块大小的倍数时，既不丢失也不多算。

    test_flash_mask: flash_even_mask
        With as many queries as keys, query i averages values 0 to i.
        查询与键一样多时，查询 i 对第 0 到 i 个值取平均。

    test_flash_value_heads: flash_value_heads
        Each query head gets the values of its own kv head.
        每个查询头使用与其对应的键值头的值。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_parity(student, case)


def _expect_last(student: Student, case: Case, first: int) -> None:
    """The queries from ``first`` on, alone: they see what they saw before."""
    place = (slice(None), slice(None), slice(first, None))
    result = flash(student, case, changed={"q": _part(case["q"], *place)})
    every = case["q"].shape[2]
    left = every - first
    what = Text(
        f"the output of the last {left} queries after a call with all {every}",
        f"先算全部 {every} 个查询、再只算最后 {left} 个时的输出",
    )
    expect_close(result, _part(case["y"], *place), case, what)


@cases("flash_core", "flash_causal")
def test_flash_parity(student: Student, case: Case) -> None:
    """The numbers equal those of F.scaled_dot_product_attention, for a single query, too.

    数值与 F.scaled_dot_product_attention 一致，只有一个查询时也一样。
    """
    expect_parity(student, case)
    _expect_last(student, case, case["q"].shape[2] - 1)


@cases("flash_offset")
def test_flash_offset(student: Student, case: Case) -> None:
    """With more keys than queries, the last query sees all keys, whatever the lengths before.

    键比查询多时，最后一个查询能看到全部键；换一种长度再次调用也一样。
    """
    expect_parity(student, case)
    _expect_last(student, case, 1)


@cases("flash_last_query")
def test_flash_decode(student: Student, case: Case) -> None:
    """A single query sees all keys, as in decoding; the last of two sees all of thousands.

    单个查询能看到全部键，如解码时那样；两个查询、数千个键时，最后一个也能看到全部。
    """
    expect_parity(student, case)
    q, k, v, y = (
        Tensor.of(np.tile(case[name].array, (1, 1, times, 1)))
        for name, times in zip("qkvy", (2, TIMES, TIMES, 2), strict=True)
    )
    result = flash(student, case, changed={"q": q, "k": k, "v": v}, blocks=(2, 512))
    what = Text(
        f"the last output, all keys {TIMES} times over", f"全部键重复 {TIMES} 遍时的最后输出"
    )
    last = (slice(None), slice(None), slice(1, None))
    expect_close(result, y, case, what, part=last, limit=Limit(1e-4, 1e-3))


@cases("flash_tiles", "flash_rising", "flash_falling")
def test_flash_tiles(student: Student, case: Case) -> None:
    """Many tiles give the same result as one: all count, and the division comes once, at the end.

    分块计算与不分块的结果相同：每一块都要算，只在最后除一次。
    """
    whole = flash(student, case, blocks=(case["q"].shape[2], case["k"].shape[2]))
    tiles = flash(student, case)
    expect_shape(whole, case["q"].shape, case)
    expect_same(tiles, whole, case, TILES[case.recipe])


@cases("flash_core")
def test_flash_block_sizes(student: Student, case: Case) -> None:
    """The sizes of the blocks change neither the result nor which keys a query sees.

    块的大小既不影响结果，也不影响每个查询能看到哪些键。
    """
    base = flash(student, case)
    expect_shape(base, case["q"].shape, case)
    why = Text("all queries see every key once.", "所有查询都能看到每一个键，各一次。")
    if case["causal"]:
        why = Text(
            "which keys a query sees depends on their numbers in the whole, not within a tile.",
            "查询能看到哪些键，取决于它们在整个序列中的编号，而不是块内的编号。",
        )
    first = tuple(case["blocks"])
    for blocks in ((1, 1), (5, 2), (2, 64), (64, 3)):
        what = Text(
            f"the output with blocks of {blocks} and of {first}",
            f"块大小为 {blocks} 与 {first} 时的输出",
        )
        expect_same(flash(student, case, blocks=blocks), base, case, why, what)


@cases("flash_causal", "flash_deep")
def test_flash_future(student: Student, case: Case) -> None:
    """With causal=True, no output depends on a later key or value, however low the scores are.

    因果时，无论分数多低，输出都不依赖其后的键与值。
    """
    rows, keys = case["q"].shape[2], case["k"].shape[2]
    before = flash(student, case)
    for row in (0, rows // 2, rows - 2):
        first = row + 1 + keys - rows  # the first key that this query must not see
        changed = {}
        for name in "kv":
            array = case[name].array.copy()
            array[:, :, first:] = array[:, :, first:] * -1.5 + 0.7
            changed[name] = Tensor.of(array)
        after = flash(student, case, changed=changed)
        what = Text(f"the output up to query {row}", f"到查询 {row} 为止的输出")
        early = (slice(None), slice(None), slice(0, row + 1))
        expect_same(after, before, case, HIDDEN[case.recipe], what, part=early)


@cases("flash_key_heads")
def test_flash_key_heads(student: Student, case: Case) -> None:
    """Each query head looks at the keys of its own kv head.

    每个查询头使用与其对应的键值头的键。
    """
    what = Text("the heads whose keys are zero", "键为零的那些头")
    heads = (slice(None), slice(case["first"], case["last"]))
    expect_parity(student, case, what=what, part=heads)


@cases("flash_large", "flash_low")
def test_flash_large(student: Student, case: Case) -> None:
    """Scores in the hundreds, positive or negative, do no harm.

    绝对值达数百的分数，无论正负，都不会出错。
    """
    expect_parity(student, case, limit=Limit(1e-4, 1e-3))


@cases("flash_bfloat16")
def test_flash_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out, with sums in float32: many small blocks lose nothing.

    输入输出为 bfloat16，用 float32 累加：很多小块也不损失。
    """
    result = flash(student, case)
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("flash_float16")
def test_flash_float16(student: Student, case: Case) -> None:
    """float16 in, float16 out, with scores that float16 could not hold; float64 likewise.

    输入输出为 float16，而分数超出 float16 的范围；float64 也一样。
    """
    wide = {name: Tensor.of(case[name].array.astype(np.float64)) for name in "qkv"}
    for dtype, changed in (("float16", {}), ("float64", wide)):
        result = flash(student, case, changed=changed)
        expect_dtype(result, dtype, case)
        expect_close(result, case["y"], case)


@cases("flash_causal")
def test_flash_pure(student: Student, case: Case) -> None:
    """It leaves its inputs, and earlier results, alone; the same call gives the same result.

    不修改输入与之前的结果，相同的调用得到相同的结果。
    """
    first = flash(student, case, echo=True)
    function, sizes = Named("attention.flash_attention"), (case["causal"], *case["blocks"])
    calls = [(case["q"], case["k"], v, *sizes) for v in (case["v"], 1 - case["v"].array)]
    second, _ = one_after_the_other(student, case, function, *calls)
    value, args, _ = expect_items(first, 3, case)
    for number, name in enumerate("qkv"):
        expect_unchanged(args[number], case[name], case, Text(name, name))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@cases("flash_causal")
def test_flash_batch(student: Student, case: Case) -> None:
    """A row of a batch gives the same result on its own.

    批次中的一行单独计算时结果相同。
    """
    row = slice(case["q"].shape[0] - 1, None)
    alone = flash(student, case, changed={name: _part(case[name], row) for name in "qkv"})
    whole = expect_shape(flash(student, case), case["y"].shape, case)
    why = Text("rows of a batch have nothing to do with each other.", "批次中的各行互不相关。")
    expect_same(alone, _part(whole, row), case, why, OUTPUT)


@cases("flash_causal")
def test_flash_strides(student: Student, case: Case) -> None:
    """Inputs need not be contiguous: transposed heads work as they are.

    输入不必是连续存储的：转置得到的各头也可以直接使用。
    """
    turned = {name: np.ascontiguousarray(case[name].array.swapaxes(1, 2)) for name in "qkv"}
    result = student.call(
        "attention.flash_attention",
        *(student.new("torch.transpose", Tensor.of(turned[name]), 1, 2) for name in "qkv"),
        case["causal"],
        *case["blocks"],
    )
    whole = expect_shape(flash(student, case), case["y"].shape, case)
    why = Text("only their place in memory differs.", "只是在内存中的排列不同。")
    expect_same(result, whole, case, why, OUTPUT)

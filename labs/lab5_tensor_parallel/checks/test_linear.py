"""Checks of ``QKVParallelLinear`` and ``RowParallelLinear``: what a rank holds, and the sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_value,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Each
from autograder.sandbox.student import Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import (
    INPUT,
    WEIGHT,
    each,
    expect_kept_narrow,
    expect_one_collective,
    expect_ranks_close,
    on,
    qkv_sizes,
    rows,
    weights_of_ranks,
    worlds,
)

QKV, ROW = "attention.QKVParallelLinear", "attention.RowParallelLinear"
AGREE = Text(
    "every rank has to end up with the sum of all parts.", "每个 rank 最终都应得到所有部分之和。"
)


@cases("qkv_alone")
def test_qkv_runs(student: Student, case: Case) -> None:
    """On one rank it holds all heads.

    只有一个 rank 时，它持有全部的头。
    """
    linear = student.new(QKV, *qkv_sizes(case))
    result = linear(case["x"])
    expect_shape(result, case["1.0.y"].shape, case)
    _, _, heads, kv_heads = qkv_sizes(case)
    expect_value(student.get(linear, "num_heads"), heads, case, Text("num_heads", "num_heads"))
    name = Text("num_kv_heads", "num_kv_heads")
    expect_value(student.get(linear, "num_kv_heads"), kv_heads, case, name)


@cases("qkv_alone")
def test_qkv_parity(student: Student, case: Case) -> None:
    """One parameter, weight, no bias: x goes through it.

    只有一个参数 weight，没有偏置：x 与它相乘。
    """
    linear = student.new(QKV, *qkv_sizes(case), weights={"weight": case["1.0.weight"]})
    expect_close(linear(case["x"]), case["1.0.y"], case)


def _expect_packed(found: Iterable[Result], want: Sequence[Tensor], case: Case) -> None:
    """What every rank holds: queries, keys and values each by itself, so that one is named."""
    _, size, heads, _ = qkv_sizes(case)
    for rank, (result, wanted) in enumerate(zip(found, want, strict=True)):
        whole = expect_shape(result, wanted.shape, case, on(rank, WEIGHT))
        query, end = heads // len(want) * size, wanted.shape[0]
        keys = query + (end - query) // 2
        for name, first, last in (("q", 0, query), ("k", query, keys), ("v", keys, end)):
            en, zh = f"the rows of {name} in {WEIGHT.en}", f"{WEIGHT.zh}中 {name} 的行"
            what = on(rank, Text(en, zh)) if len(want) > 1 else Text(en, zh)
            expect_close(rows(whole, first, last), rows(wanted, first, last), case, what)


def _load(student: Student, linear: Handle, case: Case) -> None:
    weight = student.new("builtins.getattr", linear, "weight")
    loader = student.new("builtins.getattr", weight, "weight_loader")  # as load_weights finds it
    for shard in ("k", "q", "v"):  # in no order that code could rely on
        student.call(loader, weight, case[shard], shard)


@cases("qkv_alone_loading")
def test_qkv_loader(student: Student, case: Case) -> None:
    """weight_loader puts q, k and v below each other, whatever comes first.

    weight_loader 把 q、k、v 依次上下排放，与加载的先后无关。
    """
    linear = student.new(QKV, *qkv_sizes(case))
    _load(student, linear, case)
    _expect_packed([student.get(linear, "weight")], [case["1.0.weight"]], case)


@cases("qkv_own", "qkv_shared")
def test_qkv_shapes(student: Student, case: Case) -> None:
    """Every rank has room for its own heads: a share of the queries, at least one kv head.

    每个 rank 只为自己的头留位置：一部分查询头，至少一个键值头。
    """
    for world in worlds(case):
        group = student.ranks(world)
        linear = group.new(QKV, *qkv_sizes(case))
        weights, heads = group.get(linear, "weight"), group.get(linear, "num_heads")
        kv_heads = group.get(linear, "num_kv_heads")
        # What a weight holds at first is free, and so no mistake is known by it; its size is not.
        group.get(group.new("builtins.getattr", linear, "weight"), "shape")
        for rank in range(world):
            expect_shape(weights[rank], case[f"{world}.{rank}.weight"].shape, case, on(rank))
            _, _, all_heads, all_kv_heads = qkv_sizes(case)
            named = on(rank, Text("num_heads", "num_heads"))
            expect_value(heads[rank], all_heads // world, case, named)
            named = on(rank, Text("num_kv_heads", "num_kv_heads"))
            expect_value(kv_heads[rank], max(1, all_kv_heads // world), case, named)


@checks("""
    test_qkv_rows: qkv_own_loading
        Every rank loads the rows of its own heads, a block of neighbours.
        每个 rank 加载自己那些头的行，这些头是连续的一块。

    test_qkv_shared: qkv_shared qkv_single
        With more ranks than kv heads, neighbouring ranks load the same kv head.
        rank 多于键值头时，由相邻的几个 rank 加载同一个键值头。
    """)
def _expect_rows(student: Student, case: Case) -> None:
    for world in worlds(case):
        group = student.ranks(world)
        linear = group.new(QKV, *qkv_sizes(case))
        weight = group.new("builtins.getattr", linear, "weight")
        for shard in ("v", "q", "k"):
            group.call(linear, weight, case[shard], shard, method="weight_loader")
        _expect_packed(group.get(linear, "weight"), weights_of_ranks(case, world), case)


@cases("qkv_own")
def test_qkv_on_ranks(student: Student, case: Case) -> None:
    """A rank projects with what it holds, and talks to no other.

    每个 rank 用自己持有的权重投影，不与其他 rank 通信。
    """
    group = student.ranks(2)
    linear = group.new(QKV, *qkv_sizes(case), weights=sharded_weight(case, 2))
    result = group.call(linear, case["x"])
    expect_ranks_close(result, [case[f"2.{rank}.y"] for rank in range(2)], case)


def sharded_weight(case: Case, world: int) -> Each:
    """The weight of every rank, as a state dict."""
    return Each([{"weight": weight} for weight in each(case, world, "weight").values])


@cases("row")
def test_row_runs(student: Student, case: Case) -> None:
    """On one rank it is a plain projection.

    只有一个 rank 时，就是普通的投影。
    """
    linear = student.new(ROW, *case["sizes"])
    expect_shape(linear(case["x"]), case["y"].shape, case)


@cases("row")
def test_row_parity(student: Student, case: Case) -> None:
    """One parameter, weight, no bias; on one rank there is nothing to add.

    只有一个参数 weight，没有偏置；只有一个 rank 时没有要相加的。
    """
    linear = student.new(ROW, *case["sizes"], weights={"weight": case["weight"]})
    expect_close(linear(case["x"]), case["y"], case)


@cases("row_loading")
def test_row_loader(student: Student, case: Case) -> None:
    """Every rank loads the columns of its own features.

    每个 rank 加载自己那些特征的列。
    """
    for world in worlds(case):
        group = student.ranks(world)
        linear = group.new(ROW, *case["sizes"])
        weight = group.new("builtins.getattr", linear, "weight")
        group.call(linear, weight, case["weight"], method="weight_loader")
        loaded = group.get(linear, "weight")
        expect_ranks_close(loaded, weights_of_ranks(case, world), case, WEIGHT)


@cases("row")
def test_row_sum(student: Student, case: Case) -> None:
    """The parts of all ranks add up to the whole, on every rank.

    所有 rank 的部分之和等于整体，每个 rank 上都是如此。
    """
    for world in worlds(case):
        group = student.ranks(world)
        linear = group.new(ROW, *case["sizes"], weights=sharded_weight(case, world))
        result = group.call(linear, each(case, world, "x"))
        expect_ranks_close(result, [case["y"]] * world, case)


@cases("row")
def test_row_collectives(student: Student, case: Case) -> None:
    """One forward pass makes one collective call.

    一次前向计算恰好调用一次集合通信。
    """
    group = student.ranks(4)
    linear = group.new(ROW, *case["sizes"], weights=sharded_weight(case, 4))
    expect_one_collective(group.call(linear, each(case, 4, "x"), counted=True), case)


@cases("row_bfloat16")
def test_row_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out, ranks or not; the weight stays bfloat16 when float32 is loaded.

    输入 bfloat16，输出 bfloat16，无论有几个 rank；加载 float32 的张量后，weight 仍为 bfloat16。
    """
    group = student.ranks(2)
    expect_kept_narrow(group, ROW, case, *case["sizes"][::-1])
    weights = sharded_weight(case, 2)
    linear = group.new(ROW, *case["sizes"], weights=weights, dtype="bfloat16")
    result = group.call(linear, each(case, 2, "x"))
    for rank in range(2):
        expect_dtype(result[rank], "bfloat16", case, on(rank))
        expect_close(result[rank], case["y"], case, on(rank))


@cases("row")
def test_row_pure(student: Student, case: Case) -> None:
    """Its input and its weight are left alone, also by the sum over ranks.

    输入与权重都不被修改，跨 rank 求和也不例外。
    """
    group = student.ranks(2)
    linear = group.new(ROW, *case["sizes"], weights=sharded_weight(case, 2))
    first = group.call(linear, each(case, 2, "x"), echo=True)
    second = group.call(linear, each(case, 2, "x"))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    for rank in range(2):
        value, args, _ = expect_items(first[rank], 3, case, on(rank))
        expect_unchanged(args[0], case[f"2.{rank}.x"], case, on(rank, INPUT))
        expect_same(second[rank], value, case, why, on(rank))

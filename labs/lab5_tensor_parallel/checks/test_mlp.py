"""Checks of the merged projection, the activation and the MLP."""

from __future__ import annotations

import numpy as np

from autograder.checks.expect import (
    OUTPUT,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Group, RankHandle
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import (
    INPUT,
    WEIGHT,
    expect_one_collective,
    expect_ranks_close,
    on,
    sharded,
    weights_of_ranks,
    worlds,
)

MERGED, ACT, MLP = "mlp.MergedColumnParallelLinear", "mlp.SiluAndMul", "mlp.Qwen3MLP"
ROW, STANDING = "attention.RowParallelLinear", "labs.given.flat.StandInDown"


@cases("merged")
def test_merged_runs(student: Student, case: Case) -> None:
    """On one rank it holds gate and up whole.

    只有一个 rank 时，它持有完整的 gate 与 up。
    """
    linear = student.new(MERGED, *case["sizes"])
    expect_shape(linear(case["x"]), case["1.0.y"].shape, case)


@cases("merged")
def test_merged_parity(student: Student, case: Case) -> None:
    """One parameter, weight, no bias: x goes through it.

    只有一个参数 weight，没有偏置：x 与它相乘。
    """
    linear = student.new(MERGED, *case["sizes"], weights={"weight": case["1.0.weight"]})
    expect_close(linear(case["x"]), case["1.0.y"], case)


@cases("merged_loading")
def test_merged_loader(student: Student, case: Case) -> None:
    """On one rank weight_loader puts gate above up, whichever comes first.

    只有一个 rank 时，weight_loader 把 gate 放在 up 之上，与加载的先后无关。
    """
    linear = student.new(MERGED, *case["sizes"])
    weight = student.new("builtins.getattr", linear, "weight")
    loader = student.new("builtins.getattr", weight, "weight_loader")  # as load_weights finds it
    student.call(loader, weight, case["up"], 1)
    student.call(loader, weight, case["gate"], 0)
    expect_close(student.get(linear, "weight"), case["1.0.weight"], case, WEIGHT)


@cases("merged_loading")
def test_merged_rows(student: Student, case: Case) -> None:
    """Every rank loads its share of gate and its share of up.

    每个 rank 加载 gate 的一份与 up 的一份。
    """
    for world in worlds(case):
        group = student.ranks(world)
        linear = group.new(MERGED, *case["sizes"])
        weight = group.new("builtins.getattr", linear, "weight")
        group.call(linear, weight, case["gate"], 0, method="weight_loader")
        group.call(linear, weight, case["up"], 1, method="weight_loader")
        loaded = group.get(linear, "weight")
        expect_ranks_close(loaded, weights_of_ranks(case, world), case, WEIGHT)


@cases("activation")
def test_act_runs(student: Student, case: Case) -> None:
    """It halves the last dimension.

    最后一个轴减半。
    """
    expect_shape(student.new(ACT)(case["x"]), case["y"].shape, case)


@cases("activation")
def test_act_values(student: Student, case: Case) -> None:
    """silu of the first half times the second half; the input is left as it was.

    前一半经过 silu，再乘以后一半；输入不被修改。
    """
    act = student.new(ACT)
    result, called = act(case["x"]), act(case["x"], echo=True)
    expect_close(result, case["y"], case)
    _, args, _ = expect_items(called, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)


@cases("activation_bfloat16")
def test_act_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    result = student.new(ACT)(case["x"])
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("mlp_standing")
def test_mlp_runs(student: Student, case: Case) -> None:
    """It maps [tokens, hidden_size] to itself, through the down_proj that is handed in.

    经过传入的 down_proj，形状仍为 [tokens, hidden_size]。
    """
    hidden, inner = case["sizes"]
    mlp = student.new(MLP, hidden, inner, student.new(STANDING, hidden, inner))
    expect_shape(mlp(case["x"]), case["x"].shape, case)


@cases("mlp_standing", "mlp_bfloat16")
def test_mlp_parts(student: Student, case: Case) -> None:
    """On one rank, with a substitute for down_proj: right numbers, dtype kept, x left as it was.

    只有一个 rank、用别的函数代替 down_proj 时，数值正确，数据类型不变，也不修改 x。
    """
    (hidden, inner), dtype = case["sizes"], case.values.get("dtype", "float32")
    down = student.new(STANDING, hidden, inner)
    mlp = student.new(MLP, hidden, inner, down, weights=case.group("1.0."), dtype=dtype)
    value, args, _ = expect_items(mlp(case["x"], echo=True), 3, case)
    expect_dtype(value, dtype, case)
    expect_close(value, case["y"], case)
    expect_unchanged(args[0], case["x"], case, INPUT)


def _mlp_on_ranks(group: Group, case: Case, down: str) -> RankHandle:
    hidden, inner = case["sizes"]
    own = group.new(down, *((inner, hidden) if down == ROW else (hidden, inner)))
    return group.new(MLP, hidden, inner, own, weights=sharded(case, group.world))


@cases("mlp_standing")
def test_mlp_shards(student: Student, case: Case) -> None:
    """The results that the ranks compute from their shares add up to the whole.

    各 rank 用自己那份算出的结果之和等于整体。
    """
    for world in worlds(case):
        group = student.ranks(world)
        result = _mlp_on_ranks(group, case, STANDING)(case["x"])
        parts = [expect_shape(one, case["y"].shape, case, on(r)) for r, one in enumerate(result)]
        total = np.sum([part.array.astype(np.float64) for part in parts], axis=0)
        what = Text("the sum over ranks", "各 rank 之和")
        expect_close(Tensor.of(total.astype(np.float32)), case["y"], case, what)


@cases("mlp_whole")
def test_mlp_ranks(student: Student, case: Case) -> None:
    """With your RowParallelLinear 1, 2 and 4 ranks give the numbers of Hugging Face.

    使用你的 RowParallelLinear，1、2、4 个 rank 的数值都与 Hugging Face 一致。
    """
    hidden, inner = case["sizes"]
    down = student.new(ROW, inner, hidden)
    alone = student.new(MLP, hidden, inner, down, weights=case.group("1.0."))
    expect_close(alone(case["x"]), case["y"], case, OUTPUT)
    for world in worlds(case):
        group = student.ranks(world)
        result = _mlp_on_ranks(group, case, ROW)(case["x"])
        expect_ranks_close(result, [case["y"]] * world, case)


@cases("mlp_whole")
def test_mlp_collectives(student: Student, case: Case) -> None:
    """One forward pass makes one collective call.

    一次前向计算恰好调用一次集合通信。
    """
    group = student.ranks(4)
    result = group.call(_mlp_on_ranks(group, case, ROW), case["x"], counted=True)
    expect_one_collective(result, case)

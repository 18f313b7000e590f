"""Checks of the norm that adds, and of the decoder layer that leaves its sum to it."""

from __future__ import annotations

from typing import Any

from autograder.checks.contracts import checks
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
from autograder.sandbox.ranks import Each, Group, RankHandle
from autograder.sandbox.student import Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import attention_sizes, expect_ranks_close

NORM, LAYER = "mlp.RMSNorm", "mlp.Qwen3DecoderLayer"
SUM = Text("the sum that is handed on", "传下去的和")
NORMED = Text("the normed output", "归一化后的输出")
HIDDEN, RESIDUAL = Text("hidden_states", "hidden_states"), Text("residual", "residual")


def _norm_of(student: Student, case: Case) -> Handle:
    dtype, size = case.values["dtype"], case["x"].shape[-1]
    return student.new(NORM, size, case["eps"], weights=case.weights, dtype=dtype)


def _pair(result: Result | Any, case: Case) -> tuple[Tensor, Tensor]:
    """The two tensors that norm and layer return."""
    first, second = expect_items(result, 2, case)
    shape = case["x"].shape
    return expect_shape(first, shape, case, NORMED), expect_shape(second, shape, case, SUM)


@cases("norm")
def test_norm_runs(student: Student, case: Case) -> None:
    """It returns two tensors, with a residual and without.

    无论是否给出 residual，都返回两个张量。
    """
    norm = student.new(NORM, case["x"].shape[-1], case["eps"], weights=case.weights)
    _pair(norm(case["x"]), case)
    _pair(norm(case["x"], case["residual"]), case)


@cases("norm")
def test_norm_first(student: Student, case: Case) -> None:
    """Without a residual, x itself is normed, and passed on.

    没有 residual 时，对 x 本身归一化，并把 x 传下去。
    """
    normed, total = _pair(_norm_of(student, case)(case["x"]), case)
    expect_close(normed, case["first"], case, NORMED)
    expect_close(total, case["x"], case, SUM)


@checks("""
    test_norm_adds: norm
        With a residual the sum is normed.
        有 residual 时，对两者之和归一化。

    test_norm_eps: norm_tiny
        eps is added to the mean square, under the root.
        eps 加在均方上，位于根号之内。
    """)
def _expect_normed(student: Student, case: Case) -> None:
    normed, _ = _pair(_norm_of(student, case)(case["x"], case["residual"]), case)
    expect_close(normed, case["y"], case, NORMED)


@cases("norm")
def test_norm_hands_on(student: Student, case: Case) -> None:
    """What is passed on is the sum, not normed.

    传下去的是和本身，没有归一化。
    """
    _, total = _pair(_norm_of(student, case)(case["x"], case["residual"]), case)
    expect_close(total, case["sum"], case, SUM)


@cases("norm_float16")
def test_norm_float16(student: Student, case: Case) -> None:
    """float16 with inputs of 300 does not overflow, and stays float16.

    float16 且输入达 300 时不溢出，且仍为 float16。
    """
    normed, total = _pair(_norm_of(student, case)(case["x"], case["residual"]), case)
    expect_dtype(normed, "float16", case, NORMED)
    expect_dtype(total, "float16", case, SUM)
    expect_close(normed, case["y"], case, NORMED)


@cases("norm")
def test_norm_pure(student: Student, case: Case) -> None:
    """Neither x nor residual is changed.

    x 与 residual 都不被修改。
    """
    called = _norm_of(student, case)(case["x"], case["residual"], echo=True)
    _, args, _ = expect_items(called, 3, case)
    expect_unchanged(args[0], case["x"], case, Text("x", "x"))
    expect_unchanged(args[1], case["residual"], case, RESIDUAL)


def _standing(student: Student, case: Case, number: int, *, loaded: bool = True) -> Handle:
    """A layer of the student's with stand-ins for attention and MLP."""
    hidden, eps = case.config["hidden_size"], case.config["rms_norm_eps"]
    attention = student.new("labs.given.flat.StandInAttention", hidden)
    mlp = student.new("labs.given.flat.StandInMLP", hidden)
    weights = case.group(f"layers.{number}.") if loaded else None
    dtype = case.values["dtype"]
    return student.new(LAYER, hidden, eps, attention, mlp, weights=weights, dtype=dtype)


def _added(pair: tuple[Tensor, Tensor]) -> Tensor:
    return Tensor.of(pair[0].array + pair[1].array)


@cases("layers")
def test_layer_runs(student: Student, case: Case) -> None:
    """It returns hidden states and a residual, of the shape that came in.

    返回 hidden_states 与 residual，形状与输入相同。
    """
    layer = _standing(student, case, 0, loaded=False)
    _pair(layer(case["positions"], case["x"], None, case["cu"]), case)


@cases("layers")
def test_layer_loads(student: Student, case: Case) -> None:
    """Its modules have the names of Hugging Face.

    各模块的名称与 Hugging Face 相同。
    """
    layer = _standing(student, case, 0)
    _pair(layer(case["positions"], case["x"], None, case["cu"]), case)


@cases("layers")
def test_layer_first(student: Student, case: Case) -> None:
    """In the first layer the two outputs add up to what Hugging Face's layer returns.

    在第一层中，两个输出之和等于 Hugging Face 该层的输出。
    """
    pair = _pair(_standing(student, case, 0)(case["positions"], case["x"], None, case["cu"]), case)
    what = Text("hidden_states + residual", "hidden_states + residual")
    expect_close(_added(pair), case["first"], case, what)


def _two(student: Student, case: Case) -> Result:
    """Two layers, one behind the other."""
    positions, cu = case["positions"], case["cu"]
    first = _standing(student, case, 0)(positions, case["x"], None, cu)
    hidden, residual = _pair(first, case)
    return _standing(student, case, 1)(positions, hidden, residual, cu)


@cases("layers")
def test_layer_second(student: Student, case: Case) -> None:
    """After a second layer, which is given both, they do so, too.

    第二层接收这两个输出，它的两个输出之和同样正确。
    """
    what = Text("hidden_states + residual of the second layer", "第二层的 hidden_states + residual")
    expect_close(_added(_pair(_two(student, case), case)), case["last"], case, what)


@cases("layers")
def test_layer_norm(student: Student, case: Case) -> None:
    """Two layers and your norm after them: the sum is taken in the norm.

    两层之后接上你的归一化：求和在归一化中完成。
    """
    hidden, residual = _pair(_two(student, case), case)
    size, eps = case.config["hidden_size"], case.config["rms_norm_eps"]
    norm = student.new(NORM, size, eps, weights={"weight": case["norm.weight"]})
    normed, _ = _pair(norm(hidden, residual), case)
    expect_close(normed, case["y"], case, NORMED)


@cases("layers_bfloat16")
def test_layer_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out, both of them; what comes in is left as it was.

    输入 bfloat16，两个输出都是 bfloat16；不修改输入。
    """
    x, positions, cu = case["x"], case["positions"], case["cu"]
    called = _standing(student, case, 0)(positions, x, None, cu, echo=True)
    pair, first, _ = expect_items(called, 3, case)
    hidden, residual = _pair(pair, case)
    called = _standing(student, case, 1)(positions, hidden, residual, cu, echo=True)
    pair, second, _ = expect_items(called, 3, case)
    for tensor, what in zip(_pair(pair, case), (HIDDEN, RESIDUAL), strict=True):
        expect_dtype(tensor, "bfloat16", case, what)
    expect_unchanged(first[1], x, case, HIDDEN)
    expect_unchanged(second[1], hidden, case, HIDDEN)
    expect_unchanged(second[2], residual, case, RESIDUAL)


def _whole_layer(group: Group, case: Case, number: int) -> RankHandle:
    """A decoder layer made of nothing but the student's parts, loaded by load_weights."""
    hidden, inner = case.config["hidden_size"], case.config["intermediate_size"]
    attention = group.new("attention.Qwen3Attention", *attention_sizes(case))
    down = group.new("attention.RowParallelLinear", inner, hidden)
    mlp = group.new("mlp.Qwen3MLP", hidden, inner, down)
    layer = group.new(LAYER, hidden, case.config["rms_norm_eps"], attention, mlp)
    group.call("mlp.load_weights", layer, case.group(f"hf{number}."))
    return layer


@cases("whole")
def test_whole_loads(student: Student, case: Case) -> None:
    """load_weights fills your layer on 4 ranks: every row of Hugging Face in its place.

    load_weights 在 4 个 rank 上填好你的层：Hugging Face 的每一行都在应在的位置。
    """
    group = student.ranks(4)
    layer = _whole_layer(group, case, 0)
    for name in sorted(case.group("shard0.0.")):
        parameter = group.new("builtins.getattr", layer, "get_parameter")
        found = group.call(parameter, name)
        what = Text(f"the parameter {name}", f"参数 {name}")
        shards = [case[f"shard0.{rank}.{name}"] for rank in range(4)]
        expect_ranks_close(found, shards, case, what)


def _stacked(group: Group, case: Case) -> tuple[RankHandle, RankHandle, RankHandle]:
    size, eps = case.config["hidden_size"], case.config["rms_norm_eps"]
    weight = {"weight": case["norm.weight"]}
    norm = group.new(NORM, size, eps, weights=weight)
    return _whole_layer(group, case, 0), _whole_layer(group, case, 1), norm


@cases("whole")
def test_whole_ranks(student: Student, case: Case) -> None:
    """Two of your layers and the last norm on 1, 2 and 4 ranks: the numbers of Hugging Face.

    你的两层与最后的归一化，在 1、2、4 个 rank 上都与 Hugging Face 的数值一致。
    """
    for world in (1, 2, 4):
        group = student.ranks(world)
        first, second, norm = _stacked(group, case)
        positions, cu = case["positions"], case["cu"]
        pairs = [_pair(one, case) for one in first(positions, case["x"], None, cu)]
        pairs = [_pair(one, case) for one in second(positions, *_each(pairs), cu)]
        normed = [_pair(one, case)[0] for one in norm(*_each(pairs))]
        for rank, one in enumerate(normed):
            what = Text(
                f"the output on rank {rank} of {world}", f"rank {rank}（共 {world} 个）的输出"
            )
            expect_close(one, case["y"], case, what)


def _each(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Each, Each]:
    return Each([pair[0] for pair in pairs]), Each([pair[1] for pair in pairs])

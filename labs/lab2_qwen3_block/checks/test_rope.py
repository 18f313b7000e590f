"""Checks of the rotation: ``rotate_half``, ``RotaryEmbedding``, ``apply_rotary_pos_emb``."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    config,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_unlike,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor

COS, SIN = Text("cos", "cos"), Text("sin", "sin")
Q, K = Text("the rotated q", "旋转后的 q"), Text("the rotated k", "旋转后的 k")
SCORES = Text("q' k'^T after the rotation", "旋转后的 q' k'^T")
LENGTHS = (
    Text("the length of each vector of the rotated q", "旋转后的 q 中每个向量的长度"),
    Text("the length of each vector of the rotated k", "旋转后的 k 中每个向量的长度"),
)
INPUT = Text("x", "x")
RELATIVE = Text(
    "a rotation makes scores depend on the distance of two positions only.",
    "旋转使分数只取决于两个位置之间的距离。",
)


@cases("rotate_half")
def test_rotate_half_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    expect_shape(student.call("attention.rotate_half", case["x"]), case["x"].shape, case)


@cases("rotate_half")
def test_rotate_half_values(student: Student, case: Case) -> None:
    """(x1, x2) becomes (-x2, x1), half by half.

    (x1, x2) 变为 (-x2, x1)，按前后两半计算。
    """
    expect_close(student.call("attention.rotate_half", case["x"]), case["y"], case)


@cases("rotate_half")
def test_rotate_half_dtype(student: Student, case: Case) -> None:
    """It keeps the dtype and leaves its input alone.

    保持数据类型，且不修改输入。
    """
    x = Tensor.of(case["x"].array.astype(np.float16))
    result = student.call("attention.rotate_half", x, echo=True)
    value, args, _ = expect_items(result, 3, case)
    expect_dtype(value, "float16", case)
    expect_unchanged(args[0], x, case, INPUT)


def _tables(student: Student, case: Case) -> tuple[object, object]:
    rotary = student.new("attention.RotaryEmbedding", config(case.config))
    cos, sin = expect_items(rotary(case["positions"]), 2, case)
    return cos, sin


@checks("""
    test_rotary_values: tables
        The tables are right: the angle of pair i is position times theta ** (-2i / head_dim).
        表的数值正确：第 i 对的角度等于位置乘以 theta ** (-2i / head_dim)。

    test_rotary_theta: tables_theta
        The tables are right for another theta and head_dim in the config, too.
        配置中的 theta 与 head_dim 换成别的值，表同样正确。

    test_rotary_batched: tables_batched
        Positions may be [B, T]; the tables are then [B, T, head_dim].
        位置可以是 [B, T]，此时表为 [B, T, head_dim]。
    """)
def _expect_tables(student: Student, case: Case) -> None:
    cos, sin = _tables(student, case)
    expect_close(cos, case["cos"], case, COS)
    expect_close(sin, case["sin"], case, SIN)


@cases("tables")
def test_rotary_runs(student: Student, case: Case) -> None:
    """It runs and returns cos and sin of shape [T, head_dim].

    能运行，返回形状为 [T, head_dim] 的 cos 和 sin。
    """
    cos, sin = _tables(student, case)
    expect_shape(cos, case["cos"].shape, case, COS)
    expect_shape(sin, case["sin"].shape, case, SIN)


@cases("tables")
def test_rotary_dtype(student: Student, case: Case) -> None:
    """The tables are float32.

    表的数据类型为 float32。
    """
    cos, sin = _tables(student, case)
    expect_dtype(cos, "float32", case, COS)
    expect_dtype(sin, "float32", case, SIN)


@cases("tables")
def test_rotary_halves(student: Student, case: Case) -> None:
    """Both halves of a table are equal: pair i is (i, i + head_dim/2).

    表的前后两半相同：第 i 对是 (i, i + head_dim/2)。
    """
    why = Text(
        "the two have to be equal, since pair i owns the features i and i + d/2.",
        "两半应当相同：第 i 对对应特征 i 与 i + d/2。",
    )
    for table, name in zip(_tables(student, case), (COS, SIN), strict=True):
        array = expect_shape(table, case["cos"].shape, case, name).array
        first, second = (Tensor.of(half) for half in np.split(array, 2, axis=-1))
        what = Text(f"the second half of {name.en}, like the first,", f"{name.zh} 的后一半")
        expect_same(second, first, case, why, what)


@cases("tables_far", "tables_farthest")
def test_rotary_far(student: Student, case: Case) -> None:
    """Large positions keep their precision (angles in float32), also after small ones.

    位置很大时仍保持精度（角度用 float32 计算），先算过小的位置也一样。
    """
    rotary = student.new("attention.RotaryEmbedding", config(case.config))
    # A table made for these alone is too short; one kept for as many is that of others.
    first = Tensor.of(np.arange(case["positions"].shape[0]))
    before, after = rotary(first), rotary(case["positions"])
    first_cos, _ = expect_items(before, 2, case)
    cos, sin = expect_items(after, 2, case)
    others = Text(
        "the same module, called with as many small positions before, gives their tables again.",
        "同一模块此前以同样多的小位置调用过，这里又返回了当时的表。",
    )
    expect_unlike(cos, first_cos, case, others, COS)
    # float32 is good to 2e-4 at 4,000 rad and 2e-3 at 40,000, and its frequencies, made in one
    # way or another, to as much; bfloat16 angles are off by whole turns.
    limit = Limit(*case["limits"])
    expect_close(cos, case["cos"], case, COS, limit=limit)
    expect_close(sin, case["sin"], case, SIN, limit=limit)


@cases("tables_two")
def test_rotary_two_models(student: Student, case: Case) -> None:
    """Two models with different theta in one process do not affect each other.

    同一进程中两个 theta 不同的模型互不干扰。
    """
    other = dict(case.config) | {"rope_theta": case["other_theta"]}
    first = student.new("attention.RotaryEmbedding", config(other))
    second = student.new("attention.RotaryEmbedding", config(case.config))
    before, after = first(case["positions"]), second(case["positions"])
    for result, prefix in ((before, "other_"), (after, "")):
        cos, sin = expect_items(result, 2, case)
        expect_close(cos, case[f"{prefix}cos"], case, COS)
        expect_close(sin, case[f"{prefix}sin"], case, SIN)


def _turn(student: Student, case: Case, prefix: str = "") -> Result:
    tables = case[f"{prefix}cos"], case[f"{prefix}sin"]
    return student.call("attention.apply_rotary_pos_emb", case["q"], case["k"], *tables)


def _rotated(result: Result | Any, case: Case) -> tuple[Tensor, Tensor]:
    rotated_q, rotated_k = expect_items(result, 2, case)
    return (
        expect_shape(rotated_q, case["q"].shape, case, Q),
        expect_shape(rotated_k, case["k"].shape, case, K),
    )


def _scores(rotated: tuple[Tensor, Tensor]) -> Tensor:
    """``q' k'^T`` of every pair of heads: blind to how the features of a head are laid out."""
    q, k = (tensor.array.astype(np.float64) for tensor in rotated)
    return Tensor.of(np.einsum("bhqd,bgkd->bhgqk", q, k))


@cases("rotation")
def test_apply_rotary_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shapes of q and k.

    能运行，并保持 q 与 k 的形状。
    """
    _rotated(_turn(student, case), case)


@cases("rotation")
def test_apply_rotary_scores(student: Student, case: Case) -> None:
    """The rotated q and k give the right q'k'^T for every pair of positions.

    旋转后的 q 与 k 对任意两个位置都给出正确的 q'k'^T。
    """
    expect_close(_scores(_rotated(_turn(student, case), case)), case["scores"], case, SCORES)


@cases("rotation")
def test_apply_rotary_norms(student: Student, case: Case) -> None:
    """A rotation changes no vector's length.

    旋转不改变任何向量的长度。
    """
    why = Text("rotating a pair keeps its length.", "旋转一对特征不改变其长度。")
    both = _rotated(_turn(student, case), case)
    for rotated, name, what in zip(both, ("q", "k"), LENGTHS, strict=True):
        before, after = (
            Tensor.of(np.linalg.norm(t.array.astype(np.float64), axis=-1))
            for t in (case[name], rotated)
        )
        expect_same(after, before, case, why, what)


@cases("rotation")
def test_apply_rotary_relative(student: Student, case: Case) -> None:
    """Moving all positions by 17 changes no score.

    所有位置同时移动 17，分数不变。
    """
    results = _turn(student, case), _turn(student, case, "later_")
    here, later = (_rotated(result, case) for result in results)
    expect_same(_scores(later), _scores(here), case, RELATIVE, SCORES)
    moved = Text("positions 17 apart turn a vector.", "相差 17 个位置时向量会转动。")
    expect_unlike(later[0], here[0], case, moved, Q)


@cases("rotation")
def test_apply_rotary_dtype(student: Student, case: Case) -> None:
    """q and k keep their own dtypes although the tables are float32, and no input changes.

    尽管表为 float32，q 与 k 仍保持各自的数据类型，且不修改任何输入。
    """
    results = []
    for dtypes in (("float16", "float16"), ("float16", "float32"), ("float32", "float32")):
        q, k = (
            Tensor.of(case[name].array.astype(dtype))
            for name, dtype in zip("qk", dtypes, strict=True)
        )
        given = q, k, case["cos"], case["sin"]
        call = student.call("attention.apply_rotary_pos_emb", *given, echo=True)
        results.append((dtypes, given, call))
    for dtypes, given, call in results:
        value, after, _ = expect_items(call, 3, case)
        rotated_q, rotated_k = _rotated(value, case)
        if dtypes[0] == dtypes[1]:  # who rotates both as one tensor widens the narrower
            expect_dtype(rotated_q, dtypes[0], case, Q)
        expect_dtype(rotated_k, dtypes[1], case, K)
        for now, before, name in zip(after, given, ("q", "k", "cos", "sin"), strict=True):
            expect_unchanged(now, before, case, Text(name, name))


@cases("rotation")
def test_apply_rotary_batched(student: Student, case: Case) -> None:
    """Tables of [B, T, head_dim] rotate each row by its own positions.

    表为 [B, T, head_dim] 时，每一行按自己的位置旋转。
    """
    rotated = _rotated(_turn(student, case, "row_"), case)
    expect_close(_scores(rotated), case["row_scores"], case, SCORES)

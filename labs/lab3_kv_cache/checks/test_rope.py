"""Checks of the rotation: the table, the complex product, the order of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_unlike,
    reject,
    works,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import like

REAL, IMAG = Text("the real part of the table", "表的实部"), Text("its imaginary part", "表的虚部")
PARTS = Text("real and imaginary part", "实部与虚部")
ANGLES = Text("the angle of every pair at position 1, in radians,", "位置 1 处各对的角度（弧度）")
LENGTH = Text("the length of the table's numbers", "表中各数的模")
FIRST = Text(
    "the real part of the row of position 0, where every angle is 0,",
    "位置 0 的行（角度全为 0）的实部",
)
FIRST_SUM = Text(
    "real plus imaginary part of the row of position 0, where every angle is 0,",
    "位置 0 的行（角度全为 0）的实部与虚部之和",
)
Q, K = Text("the rotated xq", "旋转后的 xq"), Text("the rotated xk", "旋转后的 xk")
SCORES = Text("xq' xk'^T after the rotation", "旋转后的 xq' xk'^T")
NORMS = Text("the length of the rotated vectors", "旋转后向量的长度")
EXAMPLE = Text(
    "[1, 2, 3, 4] at position 2, after the rotation,", "[1, 2, 3, 4] 在位置 2 旋转后的结果"
)
OF_HANDOUT = Text("the handout's example, d = 4", "讲义中的例子，d = 4")
UNTURNED = Text(
    "you return the numbers that were passed in, not rotated ones.",
    "返回的是传入的数值，没有旋转过。",
)
ROWS = Text("the permuted weight", "重排后的权重")
ORIGIN = Text(
    "the old number of the row (counted from 0) that stands in each new row",
    "各新行中放入的原行编号（从 0 起）",
)
WEIGHT = Text("the weight", "权重")
RELATIVE = Text(
    "a rotation makes scores depend on the distance of two positions only.",
    "旋转使分数只取决于两个位置之间的距离。",
)


def _expect(student: Student, demand: Callable[[], object], plainer: Callable[[], object]) -> None:
    """Make a demand; where it is not met, say first what is ``plainer``, if that is wrong, too."""
    if not works(student, demand):
        plainer()
    demand()


def _table(student: Student, case: Case) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of the student's table, from ``first`` on.

    A complex tensor has no form on the wire: torch takes it apart over there.
    """
    numbers = case["head_dim"], case["end"], case["theta"]
    made = student.call("attention.precompute_freqs_cis", *numbers).value
    if "complex64" not in repr(made):
        raise reject(made, Text("a complex64 tensor", "complex64 张量"), case)
    table = student.new("attention.precompute_freqs_cis", *numbers)
    parts = student.call("torch.view_as_real", table)
    array = expect_dtype(parts, "float32", case).array
    if array.shape[-1:] != (2,):
        raise reject(parts, PARTS, case)
    # Of the complex shape a student knows nothing but its own axes.
    whole = [Tensor.of(np.ascontiguousarray(array[..., part])) for part in (0, 1)]
    expect_shape(whole[0], (case["end"], case["head_dim"] // 2), case)
    real, imag = (Tensor.of(part.array[case["first"] :]) for part in whole)
    return real, imag


@cases("freqs")
def test_freqs_runs(student: Student, case: Case) -> None:
    """It runs and gives complex64 [end, head_dim/2].

    能运行，得到 complex64 的 [end, head_dim/2]。
    """
    _table(student, case)


@checks("""
    test_freqs_values: freqs
        The table holds the right angles.
        表中的角度正确。

    test_freqs_theta: freqs_theta
        theta and head_dim are taken from the arguments.
        theta 与 head_dim 取自参数。
    """)
def _expect_table(student: Student, case: Case, limit: Limit | None = None) -> None:
    table = _table(student, case)
    wanted = case["cos"], case["sin"]

    def angles(parts: tuple[Tensor, Tensor]) -> Tensor:
        real, imag = (part.array[1].astype(np.float64) for part in parts)
        return Tensor.of(np.arctan2(imag, real))

    def parts() -> None:
        for part, want, what in zip(table, wanted, (REAL, IMAG), strict=True):
            expect_close(part, want, case, what, limit=limit)

    def plainer() -> None:
        if not case["first"]:  # else position 1 is not looked at
            expect_close(angles(table), angles(wanted), case, ANGLES, limit=limit)

    _expect(student, parts, plainer)


@cases("freqs")
def test_freqs_unit(student: Student, case: Case) -> None:
    """Every number has length 1, and position 0 is 1: no rotation.

    每个数的模为 1，位置 0 的值为 1，即不旋转。
    """
    real, imag = (part.array.astype(np.float64) for part in _table(student, case))
    ones = Tensor.of(np.ones(real.shape))
    expect_close(Tensor.of(np.hypot(real, imag)), ones, case, LENGTH)
    one = Tensor.of(np.ones(real.shape[1]))
    expect_close(Tensor.of(real[0]), one, case, FIRST)
    expect_close(Tensor.of(real[0] + imag[0]), one, case, FIRST_SUM)


@cases("freqs_far")
def test_freqs_far(student: Student, case: Case) -> None:
    """Large positions keep their precision (angles in float32).

    位置很大时仍保持精度（角度用 float32 计算）。
    """
    # At 4000 rad float32 itself is good to 2e-4; bfloat16 angles are off by whole turns.
    _expect_table(student, case, Limit(1e-3, 2e-3))


def _turn(
    student: Student, case: Case, prefix: str = "", dtype: str = "float32", *, echo: bool = False
) -> Result:
    q, k = (like(dtype, case[name].array) for name in ("q", "k"))
    table = student.new("torch.complex", case[f"{prefix}cos"], case[f"{prefix}sin"])
    return student.call("attention.apply_rotary_emb", q, k, table, echo=echo)


def _rotated(result: Result, case: Case) -> tuple[Tensor, Tensor]:
    rotated_q, rotated_k = expect_items(result, 2, case)
    return (
        expect_shape(rotated_q, case["q"].shape, case, Q),
        expect_shape(rotated_k, case["k"].shape, case, K),
    )


def _scores(rotated: tuple[Tensor, Tensor]) -> Tensor:
    """``q' k'^T`` of every pair of heads: blind to how the features of a head are laid out."""
    q, k = (tensor.array.astype(np.float64) for tensor in rotated)
    return Tensor.of(np.einsum("bqhd,bkgd->bhgqk", q, k))


@cases("rotation")
def test_apply_rotary_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shapes of xq and xk.

    能运行，并保持 xq 与 xk 的形状。
    """
    _rotated(_turn(student, case), case)


@cases("rotation")
def test_apply_rotary_scores(student: Student, case: Case) -> None:
    """xq'xk'^T is right for every pair of positions.

    对任意两个位置，xq'xk'^T 均正确。
    """
    one = Tensor.of(np.array([[[[1, 2, 3, 4]]]], np.float32))
    angles = np.array([[2, 0.002]])
    turn = (Tensor.of(part.astype(np.float32)) for part in (np.cos(angles), np.sin(angles)))
    small = student.call(
        "attention.apply_rotary_emb", one, one, student.new("torch.complex", *turn)
    )
    rotated = _rotated(_turn(student, case), case)
    for got, name, what in zip(rotated, "qk", (Q, K), strict=True):
        expect_unlike(got, case[name], case, UNTURNED, what)

    def example() -> None:
        known = replace(case, about=OF_HANDOUT)
        got = expect_shape(expect_items(small, 2, known)[0], one.shape, known, EXAMPLE)
        want = Tensor.of(np.array([-2.2347417, 0.0770038, 2.9919940, 4.0059920], np.float32))
        expect_close(Tensor.of(got.array.reshape(4)), want, known, EXAMPLE)

    _expect(
        student,
        lambda: expect_close(_scores(rotated), case["scores"], case, SCORES),
        example,  # features of a head may be laid out in another way, so it decides nothing
    )


@cases("rotation")
def test_apply_rotary_norms(student: Student, case: Case) -> None:
    """A rotation changes no vector's length.

    旋转不改变任何向量的长度。
    """
    why = Text(
        "a number of length 1 turns a pair and keeps its length.",
        "乘以模为 1 的数只旋转，不改变长度。",
    )
    for rotated, name in zip(_rotated(_turn(student, case), case), ("q", "k"), strict=True):
        before, after = (
            Tensor.of(np.linalg.norm(t.array.astype(np.float64), axis=-1))
            for t in (case[name], rotated)
        )
        expect_same(after, before, case, why, NORMS)


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
    """xq and xk keep their dtype although the table is complex64, and stay as they were.

    尽管表为 complex64，结果仍保持 xq 与 xk 各自的数据类型；传入的 xq 与 xk 不变。
    """
    given = _turn(student, case, echo=True)
    for dtype in ("float16", "bfloat16"):
        rotated = _rotated(_turn(student, case, dtype=dtype), case)
        for tensor, name in zip(rotated, (Q, K), strict=True):
            expect_dtype(tensor, dtype, case, name)
    _, args, _ = expect_items(given, 3, case)
    expect_unchanged(args[0], case["q"], case, Text("xq", "xq"))
    expect_unchanged(args[1], case["k"], case, Text("xk", "xk"))


def _permuted(student: Student, case: Case, *, echo: bool = False) -> Result:
    return student.call(
        "attention.permute_for_complex", case["weight"], case["heads"], case["head_dim"], echo=echo
    )


@cases("permuting")
def test_permute_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    expect_shape(_permuted(student, case), case["weight"].shape, case, ROWS)


@checks("""
    test_permute_rows: permuting
        Rows j and j + head_dim/2 of every head become 2j and 2j + 1.
        每个头的第 j 行与第 j + head_dim/2 行变为第 2j 行与第 2j + 1 行。

    test_permute_norm: permuting_norm
        The weight of a norm, [head_dim], can be permuted as well.
        归一化的权重 [head_dim] 同样可以重排。
    """)
def _expect_permuted(student: Student, case: Case) -> None:
    result, given, wanted = _permuted(student, case), case["weight"].array, case["y"].array
    got = expect_shape(result, wanted.shape, case, ROWS).array

    def origin(rows: NDArray[Any]) -> Tensor:
        same = rows.reshape(len(rows), 1, -1) == given.reshape(1, len(given), -1)
        return Tensor.of(same.all(-1).argmax(-1))

    def plainer() -> None:
        if set(map(tuple, got.reshape(len(got), -1))) <= set(map(tuple, rows)):
            expect_close(origin(got), origin(wanted), case, ORIGIN)

    rows = given.reshape(len(given), -1)
    _expect(student, lambda: expect_close(result, case["y"], case, ROWS), plainer)


@cases("permuting")
def test_permute_pure(student: Student, case: Case) -> None:
    """It does not change the weight that it is given.

    不修改传入的权重。
    """
    _, args, _ = expect_items(_permuted(student, case, echo=True), 3, case)
    expect_unchanged(args[0], case["weight"], case, WEIGHT)

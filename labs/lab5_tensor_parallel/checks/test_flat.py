"""Checks of ``HeadNorm``, ``rotate`` and ``flat_attention``."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    Result,
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
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import (
    INPUT,
    bounds,
    changed_rows,
    expect_each_alone,
    reverse,
    rows,
)

NORM, ROTATE, ATTEND = "attention.HeadNorm", "attention.rotate", "attention.flat_attention"
SCORES = Text("the products of rotated queries and keys", "旋转后查询与键的乘积")
REVERSED = Text(
    "the products after a second call, with the tokens in reverse order",
    "第二次调用（token 的顺序相反）之后的乘积",
)


@checks("""
    test_head_norm_eps: head_norm_tiny
        eps is added to the mean square, under the root.
        eps 加在均方上，位于根号之内。

    test_head_norm_float16: head_norm_float16
        float16 with inputs of 300 does not overflow.
        float16 且输入达 300 时不溢出。
    """)
def _expect_norm(student: Student, case: Case) -> None:
    dtype = case.values["dtype"]
    size = case["x"].shape[-1]
    norm = student.new(NORM, size, case["eps"], weights=case.weights, dtype=dtype)
    result = norm(case["x"])
    expect_dtype(result, dtype, case)
    expect_close(result, case["y"], case)


@cases("head_norm")
def test_head_norm_values(student: Student, case: Case) -> None:
    """Every head is normed by itself, and weighted; the input is left as it was.

    每个头各自归一化，再乘以权重；输入不被修改。
    """
    _expect_norm(student, case)
    norm = student.new(NORM, case["x"].shape[-1], case["eps"], weights=case.weights)
    _, args, _ = expect_items(norm(case["x"], echo=True), 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)


@cases("head_norm")
def test_head_norm_runs(student: Student, case: Case) -> None:
    """It keeps the shape; weight is its only parameter.

    保持形状；weight 是唯一的参数。
    """
    norm = student.new(NORM, case["x"].shape[-1], case["eps"], weights=case.weights)
    expect_shape(norm(case["x"]), case["x"].shape, case)


@cases("rotation")
def test_rotate_runs(student: Student, case: Case) -> None:
    """It keeps shape and dtype.

    保持形状与数据类型。
    """
    result = student.call(ROTATE, case["q"], case["positions"], case["theta"])
    expect_shape(result, case["q"].shape, case)
    expect_dtype(result, "float32", case)


def _scores(case: Case, q: Result, k: Result) -> Tensor:
    """Products of all queries with all keys."""
    left = expect_shape(q, case["q"].shape, case).array.astype(np.float64)
    right = expect_shape(k, case["k"].shape, case).array.astype(np.float64)
    return Tensor.of(np.einsum("qhd,kgd->hgqk", left, right).astype(np.float32))


@cases("rotation")
def test_rotate_scores(student: Student, case: Case) -> None:
    """With pairs (j, j + head_dim/2) turned, q times k is Hugging Face's, in any token order.

    旋转各对 (j, j + head_dim/2) 之后，查询与键的乘积与 Hugging Face 一致，与 token 的顺序无关。
    """
    positions, theta = case["positions"], case["theta"]
    student.call(ROTATE, case["q"], positions, 10.0)  # of which nothing may be left over
    there = [student.call(ROTATE, case[n], positions, theta) for n in "qk"]
    back = [student.call(ROTATE, reverse(case[n], 0), reverse(positions, 0), theta) for n in "qk"]
    expect_close(_scores(case, *there), case["y"], case, SCORES)
    expect_close(_scores(case, *back), reverse(case["y"], -2, -1), case, REVERSED)


@cases("rotation_far", "rotation_far_bfloat16")
def test_rotate_far(student: Student, case: Case) -> None:
    """At far positions, too, the products are right: angles in float32, whatever the dtype.

    位置很远时乘积同样正确：无论 token 是什么数据类型，角度都用 float32。
    """
    near = Tensor.of(case["positions"].array % 8)
    student.call(ROTATE, case["q"], near, case["theta"])  # a table for these is too short
    turned = [student.call(ROTATE, case[n], case["positions"], case["theta"]) for n in "qk"]
    dtype = case.values["dtype"]
    narrow = dtype == "bfloat16"  # cos and sin may be so, too, as in Hugging Face
    limit = Limit(2e-2, 1e-1) if narrow else Limit(5e-3, 2e-2)
    expect_close(_scores(case, *turned), case["y"], case, SCORES, limit=limit)
    expect_dtype(turned[0], dtype, case)


@cases("rotation")
def test_rotate_lengths(student: Student, case: Case) -> None:
    """A rotation keeps the length of every head, and leaves its input as it was.

    旋转不改变每个头的长度，也不修改输入。
    """
    result = student.call(ROTATE, case["q"], case["positions"], case["theta"])
    called = student.call(ROTATE, case["q"], case["positions"], case["theta"], echo=True)
    got = expect_shape(result, case["q"].shape, case).array.astype(np.float64)
    lengths = np.sqrt((case["q"].array.astype(np.float64) ** 2).sum(-1))
    what = Text("the length of a head", "每个头的长度")
    own = Tensor.of(np.sqrt((got**2).sum(-1)).astype(np.float32))
    expect_close(own, Tensor.of(lengths.astype(np.float32)), case, what)
    _, args, _ = expect_items(called, 3, case)
    expect_unchanged(args[0], case["q"], case, INPUT)
    expect_unchanged(args[1], case["positions"], case, Text("positions", "positions"))


@checks("""
    test_flat_average: flat_uniform
        With keys of zero every token averages itself and what stands before it in its sequence.
        键全为零时，每个 token 对自己与本序列中之前的 token 取平均。

    test_flat_one: flat_one
        A single sequence, one kv head: scores over sqrt(head_dim), then softmax over what is seen.
        单个序列、一个键值头：分数除以 sqrt(head_dim)，再对看得到的键做 softmax。

    test_flat_heads: flat_single_tokens
        Each query head gets the values of its own kv head.
        每个查询头使用与其对应的键值头的值。
    """)
def _expect_flat(student: Student, case: Case, limit: Limit | None = None) -> None:
    result = student.call(ATTEND, case["q"], case["k"], case["v"], case["cu"])
    expect_close(result, case["y"], case, limit=limit)


@cases("flat_core")
def test_flat_parity(student: Student, case: Case) -> None:
    """Several sequences, several kv heads: the numbers of Hugging Face; the inputs stay the same.

    多个序列、多个键值头：数值与 Hugging Face 一致；不修改输入。
    """
    given = case["q"], case["k"], case["v"], case["cu"]
    _expect_flat(student, case)
    _, after, _ = expect_items(student.call(ATTEND, *given, echo=True), 3, case)
    for tensor, before in zip(after, given, strict=True):
        expect_unchanged(tensor, before, case, INPUT)


@cases("flat_core")
def test_flat_runs(student: Student, case: Case) -> None:
    """It gives as many tokens and heads as there are queries.

    输出的 token 数与头数与查询相同。
    """
    # Written down here, so that a forbidden function is seen however it was reached.
    given = case["q"], case["k"], case["v"], case["cu"]
    result = student.call(ATTEND, *given, operators=True)
    expect_shape(result, case["q"].shape, case)


@cases("flat_core")
def test_flat_others(student: Student, case: Case) -> None:
    """No token sees another sequence.

    任何 token 都看不到其他序列。
    """
    q, k, v, cu = case["q"], case["k"], case["v"], case["cu"]
    before = student.call(ATTEND, q, k, v, cu)
    why = Text(
        "keys and values of another sequence were changed. Look at where cu_seqlens says that "
        "a sequence begins and ends.",
        "改变的只是另一个序列的键与值。请检查 cu_seqlens 所说的序列起止位置。",
    )
    for number, (first, end) in enumerate(bounds(cu)):
        other_k, other_v = (changed_rows(t, first, end) for t in (k, v))
        after = student.call(ATTEND, q, other_k, other_v, cu)
        rest = [place for place in range(len(q.array)) if not first <= place < end]
        what = Text(f"the output outside sequence {number}", f"序列 {number} 之外的输出")
        expect_same(after, before, case, why, what, part=(np.array(rest),))


@cases("flat_core")
def test_flat_future(student: Student, case: Case) -> None:
    """No token sees a later one of its sequence.

    任何 token 都看不到本序列中后面的 token。
    """
    q, k, v, cu = case["q"], case["k"], case["v"], case["cu"]
    before = student.call(ATTEND, q, k, v, cu)
    first, end = max(bounds(cu), key=lambda own: own[1] - own[0])
    other_k, other_v = (changed_rows(t, end - 1, end) for t in (k, v))
    after = student.call(ATTEND, q, other_k, other_v, cu)
    why = Text(
        "only the last token of this sequence was changed.", "改变的只是该序列的最后一个 token。"
    )
    what = Text("the output before it", "它之前的输出")
    expect_same(after, before, case, why, what, part=(slice(first, end - 1),))


@cases("flat_core")
def test_flat_alone(student: Student, case: Case) -> None:
    """A ragged batch gives what its sequences give one by one, wherever it is cut.

    长短不一的一批序列无论在哪里切开，都与逐个计算的结果相同。
    """

    def attend(first: int, end: int, cu: Tensor) -> Result:
        return student.call(ATTEND, *(rows(case[name], first, end) for name in "qkv"), cu)

    expect_each_alone(case, case["q"].shape, attend)


@cases("flat_large")
def test_flat_large(student: Student, case: Case) -> None:
    """Large scores give the right numbers, too: the softmax does not overflow.

    分数很大时数值同样正确：softmax 不溢出。
    """
    _expect_flat(student, case, Limit(1e-4, 1e-3))


@cases("flat_bfloat16", "flat_float16")
def test_flat_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out; float16 in, float16 out.

    输入 bfloat16，输出 bfloat16；输入 float16，输出 float16。
    """
    result = student.call(ATTEND, case["q"], case["k"], case["v"], case["cu"])
    expect_dtype(result, case.values["dtype"], case)
    expect_close(result, case["y"], case)

"""Checks of ``scaled_dot_product_attention``, each blind to other mistakes where possible."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    Limit,
    cases,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    expect_tensor,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab1_foundations.checks.calls import (
    AGAIN,
    COARSE,
    STRIDES,
    changed_at,
    expect_alike,
    turned,
    widened,
)

NAME = "attention.scaled_dot_product_attention"


def _attend(student: Student, case: Case) -> Result:
    given = {"mask": case["mask"]} if "mask" in case.tensors else {}
    return student.call(NAME, case["q"], case["k"], case["v"], **given)


def _with(student: Student, case: Case, mask: Tensor) -> Result:
    return student.call(NAME, case["q"], case["k"], case["v"], mask=mask)


@cases("attention_hidden")
def test_attention_runs(student: Student, case: Case) -> None:
    """It runs, with a mask and without, and gives [..., q_len, d_v].

    无论有无掩码都能运行，形状为 [..., q_len, d_v]。
    """
    tensors = [case[name] for name in "qkv"]
    # Written down here, so that a forbidden function is seen however it was reached.
    plain = student.call(NAME, *tensors, operators=True)
    masked = student.call(NAME, *tensors, mask=case["mask"], operators=True)
    for result in (plain, masked):
        expect_shape(result, case["y"].shape, case)


@checks("""
    test_attention_lookup: attention_lookup
        A query that equals one key gets the value of that key.
        与某个键相同的查询得到该键对应的值。

    test_attention_parity: attention_core
        The numbers are right.
        数值正确。

    test_attention_additive: attention_additive
        An additive mask is added to the scores, after scaling.
        加性掩码在缩放之后加到分数上。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_close(_attend(student, case), case["y"], case)


@cases("attention_core")
def test_attention_leading(student: Student, case: Case) -> None:
    """Any number of leading dimensions works, none included.

    前导维度的数量任意，也可以没有。
    """
    arrays = [case[name].array for name in "qkv"]
    whole = _attend(student, case)
    plain = student.call(NAME, *(Tensor.of(array[-1, -1]) for array in arrays))
    deep = student.call(NAME, *(Tensor.of(array[:, None]) for array in arrays))
    want = expect_shape(whole, case["y"].shape, case).array
    why = Text(
        "leading dimensions only say how many calls there are.", "前导维度只表示调用的次数。"
    )
    for result, same in ((plain, want[-1, -1]), (deep, want[:, None])):
        what = Text(f"the output of shape {list(same.shape)}", f"形状为 {list(same.shape)} 的输出")
        expect_same(result, Tensor.of(same), case, why, what)


@cases("attention_scale")
def test_attention_scale(student: Student, case: Case) -> None:
    """The scores are divided by the root of d, and by nothing else.

    分数除以 d 的平方根，不除以别的。
    """
    plain = student.call(NAME, case["q"], case["k"], case["v"])
    wide = student.call(NAME, case["wide_q"], case["wide_k"], case["v"])
    why = Text(
        "four times the features need twice the divisor: the scores are q k^T / sqrt(d).",
        "特征数变为四倍时，除数应变为两倍：分数是 q k^T / sqrt(d)。",
    )
    expect_same(wide, plain, case, why)


@cases("attention_hidden")
def test_attention_hidden(student: Student, case: Case) -> None:
    """What the mask hides from a query does not matter to it.

    对某个查询屏蔽的内容，不会影响该查询的结果。
    """
    before, mask = _attend(student, case), case["mask"].array
    rows = (0, mask.shape[0] - 1)
    after = {}
    for row in rows:
        hidden = (..., ~mask[row], slice(None))
        k, v = changed_at(case["k"], hidden), changed_at(case["v"], hidden)
        after[row] = student.call(NAME, case["q"], k, v, mask=case["mask"])
    why = Text(
        "keys and values were changed only where the mask is False; True means: may look.",
        "只改动了掩码为 False 处的键与值；True 表示可以看。",
    )
    for row in rows:
        what = Text(f"the output of query {row}", f"查询 {row} 的输出")
        part = (..., slice(row, row + 1), slice(None))
        expect_same(after[row], before, case, why, what, part=part)


@cases("attention_removed", "attention_removed_far")
def test_attention_removed(student: Student, case: Case) -> None:
    """Hiding keys from every query is the same as taking them away.

    对所有查询屏蔽某些键，等同于去掉这些键。
    """
    limit = COARSE.tensor if "far" in case.values else 1e-5
    masked = _attend(student, case)
    without = student.call(NAME, case["q"], case["k_left"], case["v_left"])
    first = Tensor.of(case["q"].array[..., :1, :])  # as in decoding, where one query comes
    single = student.call(NAME, first, case["k"], case["v"], mask=case["mask_one"])
    why = Text(
        "hidden keys must not take any share of the weights: hide them before the softmax.",
        "被隐藏的键不能分走任何权重：应在 softmax 之前屏蔽。",
    )
    expect_same(masked, without, case, why, limit=limit)
    want = Tensor.of(expect_shape(without, case["y"].shape, case).array[..., :1, :])
    what = Text("the output of a single query", "单个查询的输出")
    expect_same(single, want, case, why, what, limit=limit)


@cases("attention_broadcast")
def test_attention_broadcast(student: Student, case: Case) -> None:
    """Masks broadcast: [kv_len], [heads, q_len, kv_len], [B, 1, 1, kv_len], [B, 1, q_len, kv_len].

    掩码可以广播：[kv_len]、[heads, q_len, kv_len]、[B, 1, 1, kv_len]、[B, 1, q_len, kv_len]。
    """
    shape = (*case["q"].shape[:-1], case["k"].shape[-2])
    results = []
    for mask in case.group("mask_").values():
        wide = Tensor.of(np.broadcast_to(mask.array, shape))
        words = f"{mask.dtype} {list(mask.shape)}"
        what = Text(f"the output for a mask {words}", f"掩码为 {words} 时的输出")
        results.append((_with(student, case, mask), _with(student, case, wide), what))
    why = Text("the whole mask, written out, means the same.", "把掩码完整展开后含义相同。")
    for small, whole, what in results:
        expect_same(small, whole, case, why, what)


@cases("attention_empty", "attention_empty_float16")
def test_attention_empty(student: Student, case: Case) -> None:
    """A query that may see nothing gets zeros, not NaN, and affects no other.

    没有可见键的查询输出为零而不是 NaN，也不影响其他查询。
    """
    names = ("full", "empty", "added")
    full, empty, added = (_with(student, case, case[name]) for name in names)
    row = case["row"]
    others = [number for number in range(case["q"].shape[-2]) if number != row]
    why = Text("only the mask of another query was changed.", "只改动了另一个查询的掩码。")
    kinds = {("bool", "布尔"): empty, ("additive", "加性"): added}
    for (en, zh), result in kinds.items():
        what = Text(f"the output (with the {en} mask)", f"使用{zh}掩码时的输出")
        nothing = Text(
            f"the output of query {row}, from which the {en} mask hides every key,",
            f"{zh}掩码屏蔽了所有键的查询 {row} 的输出",
        )
        expect_same(result, full, case, why, what, part=(..., others, slice(None)))
        zeros = Tensor.of(np.zeros_like(expect_tensor(full, case).array))
        expect_close(result, zeros, case, nothing, part=(..., row, slice(None)))


@cases("attention_large", "attention_low")
def test_attention_large(student: Student, case: Case) -> None:
    """Scores of ±10,000 do no harm, and a row full of large negative numbers hides nothing.

    分数为 ±10,000 时也没有问题；一整行很大的负数并不屏蔽任何键。
    """
    limit = Limit(0.05, 0.1) if "mask" in case.tensors else COARSE  # one part in 16 of a score
    expect_close(_attend(student, case), case["y"], case, limit=limit)


@checks("""
    test_attention_bfloat16: attention_bfloat16
        bfloat16 in, bfloat16 out.
        输入 bfloat16，输出 bfloat16。

    test_attention_float16: attention_float16
        float16 in, float16 out, with either kind of mask.
        输入 float16，输出 float16，两种掩码都可以。
    """)
def _expect_narrow(student: Student, case: Case) -> None:
    tensors = [case[name] for name in "qkv"]
    wide = [widened(tensor) for tensor in tensors]
    results = [
        (
            student.call(NAME, *tensors, mask=case[name]),
            student.call(NAME, *wide, mask=widened(case[name])),
            Text(
                f"the output for a {case[name].dtype} mask", f"掩码为 {case[name].dtype} 时的输出"
            ),
        )
        for name in ("mask", "added")
    ]
    for narrow, plain, what in results:
        expect_alike(narrow, plain, case, what)


@cases("attention_additive", "attention_hidden")
def test_attention_pure(student: Student, case: Case) -> None:
    """It does not change its inputs, which need not be contiguous; calls repeat.

    不修改输入（输入不必是连续存储的），相同的调用得到相同的结果。
    """
    tensors: dict[str, Tensor] = {name: case[name] for name in ("q", "k", "v", "mask")}
    first = student.call(NAME, *tensors.values(), echo=True)
    second = student.call(NAME, *tensors.values())
    views = [turned(student, case[name], -2, -1) for name in "qkv"]
    strided = student.call(NAME, *views, case["mask"])
    # Masks come and go; none may be kept for a call that has none.
    qkv, other = list(tensors.values())[:3], Tensor.of(np.flip(case["mask"].array, -1).copy())
    before = student.call(NAME, *qkv)
    student.call(NAME, *qkv, mask=other)
    after = student.call(NAME, *qkv)
    value, args, _ = expect_items(first, 3, case)
    for (name, tensor), now in zip(tensors.items(), args, strict=True):
        expect_unchanged(now, tensor, case, Text(name, name))
    expect_same(second, value, case, AGAIN)
    expect_same(strided, value, case, STRIDES)
    why = Text("no mask of an earlier call may be left.", "之前调用的掩码不应留下任何影响。")
    expect_same(after, before, case, why)

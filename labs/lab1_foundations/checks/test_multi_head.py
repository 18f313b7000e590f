"""Checks of ``MultiHeadAttention``; most hold whatever softmax and scale do."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_unlike,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab1_foundations.checks.calls import (
    AGAIN,
    INPUT,
    STRIDES,
    changed_at,
    expect_alike,
    made,
    turned,
    widened,
)

NAME = "attention.MultiHeadAttention"


@checks("""
    test_multi_head_single_token: multi_head_token
        A single token attends to itself: v_proj, then o_proj.
        单个 token 只关注自己：先 v_proj，再 o_proj。

    test_multi_head_lookup: multi_head_lookup
        In every head its queries look up its own keys, and the heads are joined in order.
        每个头用自己的查询查找自己的键，各头按顺序拼接。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    given = {"mask": case["mask"]} if "mask" in case.tensors else {}
    expect_close(made(student, NAME, case)(case["x"], **given), case["y"], case)


@cases("multi_head_core")
def test_multi_head_runs(student: Student, case: Case) -> None:
    """It runs and gives [B, T, hidden].

    能运行，输出形状为 [B, T, hidden]。
    """
    module = made(student, NAME, case, loaded=False)
    # Written down here, so that a forbidden function is seen however it was reached.
    expect_shape(student.call(module, case["x"], operators=True), case["x"].shape, case)


@cases("multi_head_core")
def test_multi_head_loads(student: Student, case: Case) -> None:
    """The weights load by name, none missing and none left over.

    权重能按名称加载，不多也不少。
    """
    expect_shape(made(student, NAME, case)(case["x"]), case["x"].shape, case)


@cases("multi_head_causal")
def test_multi_head_causal(student: Student, case: Case) -> None:
    """With a causal mask no output depends on a later token.

    使用因果掩码时，任何输出都不依赖后面的 token。
    """
    module, tokens = made(student, NAME, case), case["x"].shape[1]
    before = module(case["x"], mask=case["mask"])
    changed = {
        first: module(changed_at(case["x"], (slice(None), slice(first, None))), mask=case["mask"])
        for first in (1, tokens - 1)
    }
    why = Text(
        "it sees the future: the mask is not handed on or not meant as True = may look, or tokens "
        "were mixed (a view straight to [B, heads, T, head_dim], or heads joined without moving "
        "them back).",
        "它看到了未来：掩码没有传下去，或没有按 True = 可以看来理解，或者 token 被混在一起（直接 "
        "view 成 [B, heads, T, head_dim]，或合并各头前没有把轴换回来）。",
    )
    for first, after in changed.items():
        what = Text(f"the output before token {first}", f"token {first} 之前的输出")
        expect_same(after, before, case, why, what, part=(slice(None), slice(0, first)))


@cases("multi_head_core")
def test_multi_head_no_mask(student: Student, case: Case) -> None:
    """Without a mask every token sees every token, later ones too.

    没有掩码时，每个 token 都能看到所有 token，包括后面的。
    """
    module = made(student, NAME, case)
    before, after = module(case["x"]), module(changed_at(case["x"], (slice(None), -1)))
    why = Text(
        "the last token was changed, and no mask hides it.",
        "改动了最后一个 token，而没有掩码隐藏它。",
    )
    what = Text("the output of the first token", "第一个 token 的输出")
    expect_unlike(after, before, case, why, what, part=(slice(None), slice(0, 1)))


@cases("multi_head_masks")
def test_multi_head_masks(student: Student, case: Case) -> None:
    """Hidden tokens are as if they were not there, for bool and for additive masks.

    被屏蔽的 token 如同不存在，布尔掩码与加性掩码都是如此。
    """
    module, left = made(student, NAME, case), case["left"]
    plain, added = module(case["x"], mask=case["mask"]), module(case["x"], mask=case["added"])
    alone = module(Tensor.of(case["x"].array[1:2, :left]))
    why = Text("tokens that a mask hides must not matter.", "掩码隐藏的 token 不应有影响。")
    want = _padded(alone, case, slice(0, left))
    for name, result in {"mask": plain, "added": added}.items():
        what = _masked(case[name])
        expect_same(result, want, case, why, what, part=(slice(1, 2), slice(0, left)))
    each = case["each"].array  # [heads, T, T], added to the scores
    wide = Tensor.of(np.repeat(each[None], len(case["x"].array), axis=0))
    why = Text("every head has a mask of its own here.", "这里每个头各有自己的掩码。")
    small, whole = module(case["x"], mask=case["each"]), module(case["x"], mask=wide)
    expect_same(small, whole, case, why, _masked(case["each"]))
    first = np.repeat(each[None, :1], len(case["x"].array), axis=0)  # [B, 1, T, T]
    alike = module(case["x"], mask=Tensor.of(first))
    expect_unlike(whole, alike, case, why)


def _masked(mask: Tensor) -> Text:
    """The name of an output, by the mask that it was given."""
    kind = ("a bool", "布尔") if mask.dtype == "bool" else ("an additive", "加性")
    shape = list(mask.shape)
    return Text(f"the output with {kind[0]} mask {shape}", f"使用{kind[1]}掩码 {shape} 时的输出")


@cases("multi_head_padded")
def test_multi_head_padding(student: Student, case: Case) -> None:
    """Padding on the left affects no token and causes no NaN.

    左侧填充不影响任何 token，也不产生 NaN。
    """
    module, kept = made(student, NAME, case), slice(case["pad"], None)
    padded = module(case["x"], mask=case["mask"])
    causal = Tensor.of(case["mask"].array[1:2, :, kept, kept])
    alone = module(Tensor.of(case["x"].array[1:2, kept]), mask=causal)
    why = Text("padding that a mask hides must not matter.", "被掩码隐藏的填充不应有影响。")
    want = _padded(alone, case, kept)
    expect_same(padded, want, case, why, part=(slice(1, 2), kept))


def _padded(alone: Result, case: Case, kept: slice) -> Tensor:
    """Row 1, computed alone, put where it stands in the batch; zeros elsewhere."""
    whole = np.zeros(case["y"].shape, np.float32)
    whole[1:2, kept] = expect_shape(alone, whole[1:2, kept].shape, case).array
    return Tensor.of(whole)


@cases("multi_head_causal")
def test_multi_head_parity(student: Student, case: Case) -> None:
    """The numbers are right, with a causal mask and without.

    无论有无因果掩码，数值都正确。
    """
    module = made(student, NAME, case)
    masked, plain = module(case["x"], mask=case["mask"]), module(case["x"])
    expect_close(
        plain, case["y_plain"], case, Text("the output without a mask", "没有掩码时的输出")
    )
    expect_close(masked, case["y"], case, Text("the output with the mask", "使用掩码时的输出"))


@cases("multi_head_bfloat16")
def test_multi_head_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    narrow = made(student, NAME, case)(case["x"], mask=case["mask"])
    plain = made(student, NAME, case, wide=True)(widened(case["x"]), mask=case["mask"])
    expect_alike(narrow, plain, case)


@cases("multi_head_padded")
def test_multi_head_pure(student: Student, case: Case) -> None:
    """Inputs are not changed and need not be contiguous; calls repeat; rows are independent.

    输入保持不变，也不必是连续存储的；相同的调用结果相同，批次中的各行互不相关。
    """
    module = made(student, NAME, case)
    first = module(case["x"], mask=case["mask"], echo=True)
    second = module(case["x"], mask=case["mask"])
    alone = module(_row(case["x"]), mask=_row(case["mask"]))
    strided = module(turned(student, case["x"], 0, 1), mask=case["mask"])
    other = changed_at(case["x"], (..., slice(1, None)))
    later, new = (m(other, mask=case["mask"]) for m in (module, made(student, NAME, case)))
    value, args, kwargs = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    expect_unchanged(kwargs["mask"], case["mask"], case, Text("mask", "mask"))
    expect_same(second, value, case, AGAIN)
    expect_same(strided, value, case, STRIDES)
    expect_same(later, new, case, AGAIN)
    whole = expect_shape(value, case["y"].shape, case)
    why = Text("rows of a batch have nothing to do with each other.", "批次中的各行互不相关。")
    expect_same(alone, _row(whole), case, why)


def _row(tensor: Tensor) -> Tensor:
    """The last row of a batch, alone."""
    return Tensor.of(tensor.array[-1:])

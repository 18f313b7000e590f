"""Checks of ``SparseMoeBlock``: router and experts together."""

from __future__ import annotations

import numpy as np

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
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab6_flash_moe.checks.calls import LOGITS, block_of

GRADIENT = "labs.given.gradient.parameter_gradient"
SLOPE = Text(
    "the gradient of the sum of the logits at gate.weight", "logits 之和对 gate.weight 的梯度"
)
SLOPE_OF_OUTPUT = Text(
    "the gradient of the sum of the output at gate.weight", "输出之和对 gate.weight 的梯度"
)


@cases("moe_normed", "moe_plain")
def test_moe_runs(student: Student, case: Case) -> None:
    """The weights of Hugging Face load, and it gives [B, T, hidden] and the logits.

    能加载 Hugging Face 的权重，返回 [B, T, hidden] 与 logits。
    """
    y, logits = expect_items(block_of(student, case)(case["x"]), 2, case)
    expect_shape(y, case["y"].shape, case, OUTPUT)
    expect_shape(logits, case["logits"].shape, case, LOGITS)


@cases("moe_normed")
def test_moe_logits(student: Student, case: Case) -> None:
    """The logits are those of all tokens, sequence after sequence, and can train the gate.

    logits 包含所有 token，按序列依次排列，可以用来训练 gate。
    """
    block, x = block_of(student, case), case["x"]
    _, logits = expect_items(block(x), 2, case)
    expect_close(logits, case["logits"], case, LOGITS)
    slope = student.call(GRADIENT, block, "gate.weight", x, item=1)
    want = np.tile(x.array.sum((0, 1), np.float64), (case["logits"].shape[1], 1))
    expect_close(slope, Tensor.of(want), case, SLOPE)


@cases("moe_normed", "moe_plain")
def test_moe_parity(student: Student, case: Case) -> None:
    """Hugging Face's numbers, with norm_topk_prob or not, no residual added; they train the gate.

    数值与 Hugging Face 一致，norm_topk_prob 为 True 或 False，不加残差；输出也能训练 gate。
    """
    block, x = block_of(student, case), case["x"]
    y, _ = expect_items(block(x), 2, case)
    expect_close(y, case["y"], case)
    slope = student.call(GRADIENT, block, "gate.weight", x, item=0)
    expect_close(slope, case["slope"], case, SLOPE_OF_OUTPUT)


@cases("moe_plain")
def test_moe_batch(student: Student, case: Case) -> None:
    """A sequence of a batch, or a token of it, gives the same result on its own.

    批次中的一个序列，或其中的一个 token，单独计算时结果相同。
    """
    block = block_of(student, case)
    whole = expect_shape(expect_items(block(case["x"]), 2, case)[0], case["y"].shape, case)
    why = Text("sequences have nothing to do with each other.", "各序列互不相关。")
    for place in (np.s_[-1:], np.s_[-1:, -1:]):
        alone = expect_items(block(Tensor.of(case["x"].array[place])), 2, case)[0]
        expect_same(alone, Tensor.of(whole.array[place]), case, why)


@cases("moe_plain")
def test_moe_pure(student: Student, case: Case) -> None:
    """It does not change its input, which need not be contiguous; equal calls agree.

    不修改输入（输入不必是连续存储的），相同的调用得到相同的结果。
    """
    block = block_of(student, case)
    once, first = block(case["x"]), block(case["x"], echo=True)
    _, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, Text("x", "x"))
    turned = Tensor.of(np.ascontiguousarray(case["x"].array.swapaxes(0, 1)))
    again = block(student.new("torch.transpose", turned, 0, 1))
    why = Text("only its place in memory differs.", "只是在内存中的排列不同。")
    y, _ = expect_items(once, 2, case)
    expect_same(expect_items(again, 2, case)[0], y, case, why)


@cases("moe_bfloat16")
def test_moe_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    y, logits = expect_items(block_of(student, case)(case["x"]), 2, case)
    expect_dtype(y, "bfloat16", case)
    expect_dtype(logits, "bfloat16", case, LOGITS)
    expect_close(y, case["y"], case)

"""Checks of ``SparseMoeBlock``: router and experts together."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.harness.checks import (
    OUTPUT,
    Case,
    Student,
    Tensor,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
)
from labs.lab6_flash_moe.checks.calls import LOGITS, block_of


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
    """The logits are those of all tokens, sequence after sequence.

    logits 包含所有 token，按序列依次排列。
    """
    _, logits = expect_items(block_of(student, case)(case["x"]), 2, case)
    expect_close(logits, case["logits"], case, LOGITS)


@cases("moe_normed", "moe_plain")
def test_moe_parity(student: Student, case: Case) -> None:
    """The numbers equal those of Hugging Face, with norm_topk_prob and without.

    数值与 Hugging Face 一致，norm_topk_prob 为 True 或 False。
    """
    y, _ = expect_items(block_of(student, case)(case["x"]), 2, case)
    expect_close(y, case["y"], case)


@cases("moe_plain")
def test_moe_batch(student: Student, case: Case) -> None:
    """A sequence of a batch gives the same alone.

    批次中的一个序列单独计算时结果相同。
    """
    block, row = block_of(student, case), slice(case["x"].shape[0] - 1, None)
    whole = expect_shape(expect_items(block(case["x"]), 2, case)[0], case["y"].shape, case)
    alone = expect_items(block(Tensor.of(case["x"].array[row])), 2, case)[0]
    why = Text("sequences have nothing to do with each other.", "各序列互不相关。")
    expect_same(alone, Tensor.of(whole.array[row]), case, why)


@cases("moe_bfloat16")
def test_moe_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    y, logits = expect_items(block_of(student, case)(case["x"]), 2, case)
    expect_dtype(y, "bfloat16", case)
    expect_dtype(logits, "bfloat16", case, LOGITS)
    expect_close(y, case["y"], case)

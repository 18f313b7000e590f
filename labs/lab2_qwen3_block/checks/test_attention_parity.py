"""Checks of ``Qwen3Attention`` as a whole: its numbers, its contract."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    OUTPUT,
    cases,
    config,
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
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab2_qwen3_block.checks.attention_calls import (
    arguments_of,
    attention_of,
    expect_parity,
)

INPUT = Text("hidden_states", "hidden_states")
GROWN = Text("the output for more tokens than before", "token 比之前多时的输出")
SHRUNK = Text("the output for fewer tokens than before", "token 比之前少时的输出")
LATER = Text(
    "calls with another number of tokens must leave no mask and no table behind.",
    "token 数不同的调用不应留下掩码或表。",
)
ARANGE = Text("position_ids=None means 0 … T-1.", "position_ids=None 表示 0 … T-1。")


@cases("attention_rows")
def test_attention_positions(student: Student, case: Case) -> None:
    """position_ids may be [B, T], and None means 0 … T-1.

    position_ids 可以是 [B, T]；None 表示 0 … T-1。
    """
    attention = attention_of(student, case)
    own = attention(case["x"], position_ids=case["positions"])
    counted = Tensor.of(np.arange(case["x"].shape[1]))
    absent, given = attention(case["x"]), attention(case["x"], position_ids=counted)
    expect_close(own, case["y"], case)
    expect_same(absent, given, case, ARANGE)


@checks("""
    test_attention_parity: attention_core
        The numbers equal those of Hugging Face.
        数值与 Hugging Face 一致。

    test_attention_checkpoint: attention_checkpoint
        The weights of the tiny Qwen3 checkpoint give the numbers of Hugging Face.
        使用微型 Qwen3 检查点的权重，数值与 Hugging Face 一致。

    test_attention_long: attention_long
        400 tokens give the right numbers too.
        400 个 token 时数值同样正确。

    test_attention_eps: attention_tiny_inputs
        The QK-norm uses rms_norm_eps of the config.
        QK-norm 使用配置中的 rms_norm_eps。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_parity(student, case)


@cases("attention_padded")
def test_attention_padding(student: Student, case: Case) -> None:
    """A left-padded batch gives the numbers of Hugging Face.

    左侧填充的批次与 Hugging Face 数值一致。
    """
    expect_parity(student, case, keep=case["keep"].array)


@cases("attention_large_logits")
def test_attention_large_logits(student: Student, case: Case) -> None:
    """Large logits do not overflow the softmax.

    很大的 logits 不会使 softmax 溢出。
    """
    expect_parity(student, case, limit=Limit(1e-4, 1e-3))


def _expect_narrow(result: Result, case: Case) -> None:
    expect_dtype(result, case["dtype"], case)
    expect_close(result, case["y"], case)


@cases("attention_bfloat16")
def test_attention_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out, also at positions that bfloat16 cannot hold.

    输入 bfloat16，输出 bfloat16；位置是 bfloat16 无法精确表示的数时也一样。
    """
    _expect_narrow(attention_of(student, case)(case["x"], **arguments_of(case)), case)


@cases("attention_float16")
def test_attention_float16(student: Student, case: Case) -> None:
    """In float16, inputs of 300 cause neither a crash nor an overflow, with or without a mask.

    float16 且输入达 300 时，无论是否给定掩码，都既不崩溃也不溢出。
    """
    attention = attention_of(student, case)
    causal = attention(case["x"])
    _expect_narrow(attention(case["x"], **arguments_of(case)), case)
    _expect_narrow(causal, case)


@cases("attention_padded")
def test_attention_pure(student: Student, case: Case) -> None:
    """It leaves its inputs alone, and the same call gives the same result.

    不修改输入，相同的调用得到相同的结果。
    """
    attention, given = attention_of(student, case), arguments_of(case)
    first = attention(case["x"], echo=True, **given)
    second = attention(case["x"], **given)
    value, args, kwargs = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    for name, tensor in given.items():
        expect_unchanged(kwargs[name], tensor, case, Text(name, name))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@cases("attention_core")
def test_attention_batch(student: Student, case: Case) -> None:
    """A row of a batch gives the same result on its own, whatever was called before.

    批次中的一行单独计算时结果相同，与之前的调用无关。
    """
    attention, row = attention_of(student, case), case["x"].shape[0] - 1
    other, beginning = attention_of(student, case), Tensor.of(case["x"].array[:, :5])
    together = attention(case["x"])
    alone = attention(Tensor.of(case["x"].array[row : row + 1]))
    # One grows, the other shrinks: a mask or a table kept from the first call fits neither.
    shrunk = attention(beginning)
    short, grown = other(beginning), other(case["x"])
    whole = expect_shape(together, case["y"].shape, case)
    why = Text("rows of a batch have nothing to do with each other.", "批次中的各行互不相关。")
    expect_same(alone, Tensor.of(whole.array[row : row + 1]), case, why, OUTPUT)
    expect_same(grown, whole, case, LATER, GROWN)
    expect_same(shrunk, short, case, LATER, SHRUNK)


@cases("attention_real")
def test_attention_real_weights(student: Student, case: Case) -> None:
    """Real Qwen3 weights give the numbers of Hugging Face.

    使用真实的 Qwen3 权重，数值与 Hugging Face 一致。
    """
    prefix = case["mapped"]
    attention = student.new("attention.Qwen3Attention", config(case.config), mapped=prefix)
    expect_close(attention(case["x"]), case["y"], case)

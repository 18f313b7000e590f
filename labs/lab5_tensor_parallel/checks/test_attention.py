"""Checks of ``Qwen3Attention``: on one rank by families, then on several."""

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
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import (
    INPUT,
    attention_of,
    attention_on_ranks,
    attention_sizes,
    expect_each_alone,
    expect_one_collective,
    expect_parity,
    expect_ranks_close,
    rows,
    worlds,
)


@cases("attention_core")
def test_attention_runs(student: Student, case: Case) -> None:
    """It gives [tokens, hidden_size].

    输出形状为 [tokens, hidden_size]。
    """
    attention = student.new("attention.Qwen3Attention", *attention_sizes(case))
    result = attention(case["positions"], case["x"], case["cu"])
    expect_shape(result, case["x"].shape, case)


@cases("attention_core")
def test_attention_loads(student: Student, case: Case) -> None:
    """The packed weights load by the names of the lab, none missing and none left over.

    打包的权重按本实验的名称加载，不缺少也不多余。
    """
    result = attention_of(student, case)(case["positions"], case["x"], case["cu"])
    expect_shape(result, case["x"].shape, case)


@checks("""
    test_attention_token: attention_token
        Sequences of one token: its values, head after head in one row, then o_proj.
        每个序列只有一个 token：它的值，各头依次并成一行，再经过 o_proj。

    test_attention_heads: attention_token_heads
        Each query head gets the values of its own kv head.
        每个查询头使用与其对应的键值头的值。

    test_attention_norm_weights: attention_unrotated
        With all positions given as 0 nothing is turned, and the numbers are Hugging Face's.
        给定的位置全为 0 时不旋转，数值与 Hugging Face 一致。

    test_attention_positions: attention_placed
        Norm, then rotation by the given positions: right at every second position, not only at 0.
        先归一化，再按给定的 positions 旋转：不仅位置为 0 时正确，位置间隔为 2 时也正确。

    test_attention_parity: attention_core
        The numbers equal those of Hugging Face.
        数值与 Hugging Face 一致。

    test_attention_eps: attention_tiny
        The norm of q and k uses rms_norm_eps.
        q 与 k 的归一化使用 rms_norm_eps。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_parity(student, case)


def _expect_scale_free(student: Student, case: Case, name: str, part: slice) -> None:
    """The rows of queries or keys times 7: normed away."""
    packed = case.weights["qkv_proj.weight"].array.copy()
    packed[part] *= np.float32(7)
    given = case["positions"], case["x"], case["cu"]
    before = attention_of(student, case)(*given)
    after = attention_of(student, case, {"qkv_proj.weight": Tensor.of(packed)})(*given)
    why = Text(f"{name} times 7 is normed away.", f"{name} 乘以 7 会被归一化抵消。")
    expect_same(after, before, case, why, limit=1e-4)


@cases("attention_core")
def test_attention_q_norm(student: Student, case: Case) -> None:
    """The size of q does not matter, since every head of q is normed.

    q 的大小无关紧要，因为 q 的每个头都做了归一化。
    """
    query = case.config["num_attention_heads"] * case.config["head_dim"]
    _expect_scale_free(student, case, "q", slice(0, query))


@cases("attention_core")
def test_attention_k_norm(student: Student, case: Case) -> None:
    """The size of k does not matter, since every head of k is normed.

    k 的大小无关紧要，因为 k 的每个头都做了归一化。
    """
    size = case.config["head_dim"]
    query = case.config["num_attention_heads"] * size
    keys = case.config["num_key_value_heads"] * size
    _expect_scale_free(student, case, "k", slice(query, query + keys))


@cases("attention_core")
def test_attention_alone(student: Student, case: Case) -> None:
    """A ragged batch gives what its sequences give one by one, wherever it is cut.

    长短不一的一批序列无论在哪里切开，都与逐个计算的结果相同。
    """
    attention = attention_of(student, case)

    def attend(first: int, end: int, cu: Tensor) -> Result:
        return attention(rows(case["positions"], first, end), rows(case["x"], first, end), cu)

    expect_each_alone(case, case["x"].shape, attend)


@cases("attention_bfloat16")
def test_attention_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    result = attention_of(student, case)(case["positions"], case["x"], case["cu"])
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("attention_core")
def test_attention_pure(student: Student, case: Case) -> None:
    """It leaves its inputs alone, and the same call gives the same result.

    不修改输入，相同的调用得到相同的结果。
    """
    attention = attention_of(student, case)
    first = attention(case["positions"], case["x"], case["cu"], echo=True)
    second = attention(case["positions"], case["x"], case["cu"])
    value, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], case["positions"], case, Text("positions", "positions"))
    expect_unchanged(args[1], case["x"], case, INPUT)
    expect_unchanged(args[2], case["cu"], case, Text("cu_seqlens", "cu_seqlens"))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@checks("""
    test_attention_ranks: attention_own
        2 and 4 ranks give the numbers of Hugging Face, each of them.
        2 个与 4 个 rank 时，每个 rank 的数值都与 Hugging Face 一致。

    test_attention_shared: attention_shared
        4 ranks that share 2 kv heads give the numbers of Hugging Face, too.
        4 个 rank 共用 2 个键值头时，数值也与 Hugging Face 一致。
    """)
def _expect_on_ranks(student: Student, case: Case) -> None:
    for world in worlds(case):
        group = student.ranks(world)
        attention = attention_on_ranks(group, case)
        result = group.call(attention, case["positions"], case["x"], case["cu"])
        expect_ranks_close(result, [case["y"]] * world, case)


@cases("attention_own")
def test_attention_collectives(student: Student, case: Case) -> None:
    """One forward pass makes one collective call.

    一次前向计算恰好调用一次集合通信。
    """
    group = student.ranks(2)
    attention = attention_on_ranks(group, case)
    result = group.call(attention, case["positions"], case["x"], case["cu"], counted=True)
    expect_one_collective(result, case)


@cases("attention_core")
def test_attention_rotary(student: Student, case: Case) -> None:
    """A rotation that is passed in replaces rotate.

    传入的旋转会代替 rotate。
    """
    given = case["positions"], case["x"], case["cu"]
    weights, sizes = case.weights, attention_sizes(case)
    still = student.new("labs.given.parallel.NoRotation")
    attention = student.new("attention.Qwen3Attention", *sizes, still, weights=weights)
    zeros = Tensor.of(np.zeros(case["positions"].shape, np.int64))
    own, plain = attention(*given), attention_of(student, case)(zeros, *given[1:])
    expect_shape(plain, case["x"].shape, case)
    why = Text(
        "a rotation that leaves everything as it is equals position 0 for all tokens.",
        "保持原样的旋转，等同于所有 token 都在位置 0。",
    )
    expect_same(own, plain, case, why)

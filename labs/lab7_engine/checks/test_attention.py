"""Checks of ``Qwen3Attention`` on block tables, call after call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    OUTPUT,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS
from autograder.sandbox.student import Dtype, Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab7_engine.checks.paged import fork_of, like, table_of


def _parts(student: Student, case: Case) -> tuple[Handle, Handle]:
    """The student's attention with the case's weights, and a pool that its texts fit into."""
    c, dtype = case.config, case.values.get("dtype", "float32")
    attention = student.new(
        "attention.Qwen3Attention", c["hidden_size"], c["num_attention_heads"],
        c["num_key_value_heads"], c["head_dim"], c["rms_norm_eps"], c["rope_theta"],
        weights=case.weights, dtype=dtype,
    )  # fmt: skip
    pool = student.new(
        "attention.BlockPool", case["blocks"], case["block"], c["num_key_value_heads"],
        c["head_dim"], Dtype(dtype),
    )  # fmt: skip
    return attention, pool


def _answers(student: Student, case: Case) -> list[tuple[Result, list[tuple[int, int, int]]]]:
    """Every call's answer, and whose tokens it is about: ``(sequence, first, end)``."""
    attention, pool = _parts(student, case)
    count = len(case["calls"][0])
    tables = [table_of(student, pool) for _ in range(count)]
    done, found = [0] * count, []
    for counts in case["calls"]:
        parts = []
        for i, new in enumerate(counts):
            if new:
                parts.append((i, done[i], done[i] + new))
                done[i] += new
        x, positions = (
            np.concatenate([case[f"{name}.{i}"].array[first:end] for i, first, end in parts])
            for name in "xp"
        )
        ends = np.cumsum([0, *(end - first for _, first, end in parts)]).astype(np.int32)
        answer = attention(
            Tensor.of(positions),
            like(case["x.0"], x),
            [tables[i] for i, _, _ in parts],
            Tensor.of(ends),
        )
        found.append((answer, parts))
    return found


@cases("attention_calls")
def test_attention_runs(student: Student, case: Case) -> None:
    """The weights of Hugging Face load, and every call gives [tokens, hidden].

    能加载 Hugging Face 的权重，每次调用输出 [tokens, hidden]。
    """
    for answer, parts in _answers(student, case):
        tokens = sum(end - first for _, first, end in parts)
        expect_shape(answer, (tokens, case.config["hidden_size"]), case)


@checks("""
    test_attention_token: attention_token
        Sequences of one token: values, their heads and o_proj.
        单 token 序列：值、各头的对应与 o_proj。

    test_attention_unrotated: attention_unrotated
        Queries and keys are normed over head_dim, whatever the rotation does.
        查询与键按 head_dim 归一化，与旋转无关。

    test_attention_eps: attention_tiny
        Tiny inputs: rms_norm_eps counts.
        输入很小：rms_norm_eps 起作用。

    test_attention_prompts: attention_prompts
        Whole prompts side by side equal Hugging Face, one by one: norm, then rotate, then store.
        并排的完整提示与 Hugging Face 逐个计算一致：先归一化，再旋转，然后存入。

    test_attention_calls: attention_calls attention_placed
        Chunks of prompts next to growing texts, at the given positions, equal whole texts.
        分段的提示与逐步增长的文本一起计算，位置按给定的，结果与完整文本相同。

    test_attention_bfloat16: attention_bfloat16
        bfloat16 in, bfloat16 out.
        输入 bfloat16，输出 bfloat16。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    for number, (answer, parts) in enumerate(_answers(student, case), start=1):
        want = np.concatenate([case[f"y.{i}"].array[first:end] for i, first, end in parts])
        what = Text(f"the output of call {number}", f"第 {number} 次调用的输出")
        what = what if len(case["calls"]) > 1 else OUTPUT
        expect_dtype(answer, case["dtype"], case, what)
        expect_close(answer, Tensor.of(want), case, what)


@cases("attention_placed")
def test_attention_positions(student: Student, case: Case) -> None:
    """rotate turns each pair by the given positions, with angles in float32, and leaves x alone.

    rotate 按给定的位置旋转每一对，角度用 float32 计算，且不修改 x。
    """
    theta, rotated = case.config["rope_theta"], []
    # Small positions first; behind 4096, angles of bfloat16 would be off by many turns.
    for dtype, part, beyond in (("float32", 0, 0), ("bfloat16", 2, 4096)):
        positions, x = case[f"p.{part}"].array + beyond, case[f"x.{part}"].array
        x = like(Tensor(dtype, (), b""), x.reshape(len(positions), 2, -1))
        given = x, Tensor.of(positions), theta
        rotated.append((dtype, x, positions, student.call("attention.rotate", *given, echo=True)))
    for dtype, x, positions, result in rotated:
        shape, at = list(x.shape), f"{positions.min()} … {positions.max()}"
        what = Text(
            f"what rotate gives for x {shape} in {dtype}, positions {at}, theta {theta:g}",
            f"rotate 对 {dtype} 的 x {shape}、位置 {at}、theta {theta:g} 的结果",
        )
        value, args, _ = expect_items(result, 3, case)
        value = expect_dtype(value, dtype, case, what)
        want = _rotated(x.array.astype(np.float64), positions, theta)
        expect_close(value, Tensor.of(want), case, what, limit=LIMITS[dtype])
        expect_unchanged(args[0], x, case, Text("x of rotate", "rotate 的 x"))


def _rotated(x: NDArray[Any], positions: NDArray[Any], theta: float) -> NDArray[Any]:
    """What ``rotate`` should give, in float64."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * theta ** -(np.arange(half) / half)
    one, other = x[..., :half], x[..., half:]
    return np.concatenate(
        (one * np.cos(angles) - other * np.sin(angles),
         other * np.cos(angles) + one * np.sin(angles)), axis=-1,
    )  # fmt: skip


@cases("attention_forked")
def test_attention_forked(student: Student, case: Case) -> None:
    """Two texts that share their beginning go on side by side, each as if alone.

    共享开头的两段文本并行继续，各自如同单独计算。
    """
    attention, pool = _parts(student, case)
    begun, positions = case["begun"], case["positions"].array
    table = table_of(student, pool)
    start, one = (case["x.0"].array[part] for part in (slice(begun), slice(begun, None)))
    more = len(one)
    ends = np.array([0, begun], dtype=np.int32)
    attention(Tensor.of(positions[:begun]), Tensor.of(start), [table], Tensor.of(ends))
    fork = fork_of(student, table)
    both = attention(
        Tensor.of(np.tile(positions[begun:], 2)),
        Tensor.of(np.concatenate((one, case["x.1"].array))),
        [table, fork],
        Tensor.of(np.array([0, more, 2 * more], dtype=np.int32)),
    )
    want = np.concatenate([case[f"y.{i}"].array[begun:] for i in range(2)])
    expect_close(both, Tensor.of(want), case)

"""Checks of the frequencies of YaRN and of ``RotaryEmbedding``."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_error,
    expect_items,
    expect_shape,
    expect_unchanged,
    expect_value,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.student import Handle, Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import INPUT, expect_kept, reverse

FREQUENCIES = Text("the frequencies", "频率")
SCORES = Text("the products of rotated queries and keys", "旋转后查询与键的乘积")
REVERSED = Text(
    "the products after a second call, with the tokens in reverse order",
    "第二次调用（token 的顺序相反）之后的乘积",
)
SCORES_OF = "labs.given.parallel.scores_of"
LENGTH = Text("the length of a head", "每个头的长度")
# Every frequency by itself: the slow ones are a millionth of the first.
EVERY = Limit(1e-5, 1e-4)
PRODUCTS = Limit(1e-4, 1e-3)


def _frequencies(student: Student, case: Case) -> Tensor:
    """The student's frequencies over the right ones, so that every pair counts as much."""
    given = case["size"], case["theta"], case["scaling"]
    result = student.call("model.yarn_frequencies", *given)
    got = expect_shape(result, case["y"].shape, case, FREQUENCIES)
    expect_dtype(result, "float32", case, FREQUENCIES)
    return got


@cases("yarn")
def test_yarn_runs(student: Student, case: Case) -> None:
    """It gives one float32 frequency per pair, [head_dim / 2].

    每一对一个 float32 频率，形状为 [head_dim / 2]。
    """
    _frequencies(student, case)


@checks("""
    test_yarn_values: yarn yarn_betas
        Fast pairs keep their frequency, that of slow ones is divided by factor, linear in between.
        快的对保持频率，慢的对频率除以 factor，两者之间线性插值。

    test_yarn_short: yarn_short yarn_long yarn_ends
        Interpolation begins at pair 0 or later; it may end past the last pair, up to head_dim - 1.
        插值区间的起点不小于 0；终点可以超出最后一对，但不大于 head_dim - 1。
    """)
def _expect_frequencies(student: Student, case: Case) -> None:
    got = _frequencies(student, case).array.astype(np.float64)
    share = Tensor.of((got / case["y"].array)[:, None].astype(np.float32))
    ones = Tensor.of(np.ones(share.shape, np.float32))
    what = Text("each frequency over the right one (1 for all)", "各频率与正确值之比（应全为 1）")
    expect_close(share, ones, case, what, limit=EVERY)


def _rotary(student: Student, case: Case) -> Handle:
    """The rotation, made after one of another theta, of which nothing may be left over."""
    size, theta, scaling = case["size"], case["theta"], case["scaling"]
    dtype = case.values.get("dtype", "float32")
    other = student.new("model.RotaryEmbedding", size, 2 * theta, scaling, dtype=dtype)
    student.call(other, case["q"], case["positions"])
    return student.new("model.RotaryEmbedding", size, theta, scaling, dtype=dtype)


@cases("rotary_plain")
def test_rotary_runs(student: Student, case: Case) -> None:
    """It keeps shape and dtype, and has nothing that a checkpoint would have to provide.

    保持形状与数据类型，且不含任何需要检查点提供的内容。
    """
    rotary = _rotary(student, case)
    result = rotary(case["q"], case["positions"])
    expect_shape(result, case["q"].shape, case)
    expect_dtype(result, "float32", case)
    _expect_no_state(student, case, rotary)


def _expect_no_state(student: Student, case: Case, rotary: Handle) -> None:
    """Nothing that a checkpoint would have to provide, whatever it is called."""
    names = student.new("labs.given.parallel.named_state", rotary)
    what = Text(
        "the number of tensors in its state_dict (a buffer needs persistent=False)",
        "state_dict 中张量的个数（buffer 需要 persistent=False）",
    )
    expect_value(student.call("builtins.len", names), 0, case, what)


@cases("rotary_plain")
def test_rotary_plain(student: Student, case: Case) -> None:
    """Without scaling it is the rotation of Qwen3, in any order of the tokens.

    没有缩放时，就是 Qwen3 的旋转，与 token 的顺序无关。
    """
    rotary, given = _rotary(student, case), [case[name] for name in ("q", "k", "positions")]
    there = student.call(SCORES_OF, rotary, *given)
    back = student.call(SCORES_OF, rotary, *(reverse(tensor, 0) for tensor in given))
    expect_close(there, case["y"], case, SCORES, limit=PRODUCTS)
    expect_close(back, reverse(case["y"], -2, -1), case, REVERSED, limit=PRODUCTS)


@checks("""
    test_rotary_scaled: rotary_scaled rotary_far
        With YaRN the products of queries and keys are those of Hugging Face.
        使用 YaRN 时，查询与键的乘积与 Hugging Face 一致。
    """)
def _expect_scores(student: Student, case: Case) -> None:
    given, rotary = (case["q"], case["k"], case["positions"]), _rotary(student, case)
    rotary(case["q"], Tensor.of(case["positions"].array % 8))  # a table for these is too short
    scores = student.call(SCORES_OF, rotary, *given)
    # An angle of ten thousands has an error of some thousandths in float32.
    far = Limit(1e-2, 5e-2) if case.recipe == "rotary_far" else PRODUCTS
    expect_close(scores, case["y"], case, SCORES, limit=far)


@cases("rotary_scaled", "rotary_factor")
def test_rotary_lengths(student: Student, case: Case) -> None:
    """Heads grow by the attention factor, whatever the position; nothing is in the state_dict.

    每个头都变为注意力因子倍，与位置无关；state_dict 中同样没有任何内容。
    """
    rotary = _rotary(student, case)
    _expect_no_state(student, case, rotary)
    result = rotary(case["q"], case["positions"])
    called = rotary(case["q"], case["positions"], echo=True)
    got = expect_shape(result, case["q"].shape, case).array.astype(np.float64)
    own = np.sqrt((got**2).sum(-1)).astype(np.float32)
    expect_close(Tensor.of(own), case["lengths"], case, LENGTH)
    _, args, _ = expect_items(called, 3, case)
    expect_unchanged(args[0], case["q"], case, INPUT)
    expect_unchanged(args[1], case["positions"], case, Text("positions", "positions"))
    given = case["size"], case["theta"], case["scaling"]
    _, args, _ = expect_items(student.call("model.RotaryEmbedding", *given, echo=True), 3, case)
    expect_kept(args[2], case["scaling"], case, Text("rope_scaling", "rope_scaling"))


@cases("rotary_bfloat16")
def test_rotary_bfloat16(student: Student, case: Case) -> None:
    """A module in bfloat16, too: bfloat16 in, bfloat16 out; angles are float32 all the same.

    模块也转为 bfloat16：输入 bfloat16，输出 bfloat16；角度仍用 float32 计算。
    """
    result = _rotary(student, case)(case["q"], case["positions"])
    expect_dtype(result, "bfloat16", case)
    got = expect_shape(result, case["q"].shape, case).array.astype(np.float64)
    expect_close(result, case["y"], case, limit=Limit(1e-1, 5e-2))
    own = np.sqrt((got**2).sum(-1)).astype(np.float32)
    expect_close(Tensor.of(own), case["lengths"], case, LENGTH, limit=Limit(3e-2, 3e-2))


@cases("rotary_scaled", "rotary_factor")
def test_rotary_unknown(student: Student, case: Case) -> None:
    """An unknown rope_type, in older files type, raises ValueError with its name.

    不认识的 rope_type（较早的文件中为 type）应引发 ValueError，并给出其名称。
    """
    key = "type" if "type" in case["scaling"] else "rope_type"
    other = dict(case["scaling"]) | {key: "longrope"}
    result = student.call("model.RotaryEmbedding", case["size"], case["theta"], other)
    why = Text(
        "a model with another rotation than it was trained for gives wrong text without an error.",
        "旋转与训练时不同的模型会给出错误的文本，而且不会报错。",
    )
    expect_error(result, "ValueError", "longrope", case, why)

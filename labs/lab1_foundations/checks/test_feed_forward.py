"""Checks of ``silu`` and ``FeedForward``."""

from __future__ import annotations

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab1_foundations.checks.calls import (
    AGAIN,
    INPUT,
    STRIDES,
    changed_at,
    expect_alike,
    expect_kept,
    made,
    turned,
    widened,
)

NAME = "mlp.FeedForward"


@cases("silu_curve")
def test_silu_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    # Written down here, so that a forbidden function is seen however it was reached.
    result = student.call("mlp.silu", case["x"], operators=True)
    expect_shape(result, case["x"].shape, case)


@checks("""
    test_silu_values: silu_curve
        It is x times the sigmoid of x.
        等于 x 乘以 x 的 sigmoid。

    test_silu_far: silu_far
        Far from 0 it is x or 0, never NaN.
        远离 0 时等于 x 或 0，不会是 NaN。
    """)
def _expect_silu(student: Student, case: Case) -> None:
    expect_close(student.call("mlp.silu", case["x"]), case["y"], case)


@cases("silu_bfloat16", "silu_float16")
def test_silu_dtype(student: Student, case: Case) -> None:
    """It keeps the dtype and leaves its input alone.

    保持数据类型，且不修改输入。
    """
    expect_kept(student, case, "mlp.silu")


@checks("""
    test_feed_forward_gate: feed_forward_open
        An open gate lets its up feature through, a closed one lets nothing through.
        门打开时，对应的 up 特征通过；门关闭时，什么都不通过。

    test_feed_forward_activation: feed_forward_curve
        The activation of the gate is SiLU.
        门的激活函数是 SiLU。

    test_feed_forward_parity: feed_forward_core
        The numbers equal those of Hugging Face's Qwen3MLP.
        数值与 Hugging Face 的 Qwen3MLP 一致。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_close(made(student, NAME, case)(case["x"]), case["y"], case)


@cases("feed_forward_core")
def test_feed_forward_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    module = made(student, NAME, case, loaded=False)
    expect_shape(student.call(module, case["x"], operators=True), case["x"].shape, case)


@cases("feed_forward_core")
def test_feed_forward_loads(student: Student, case: Case) -> None:
    """The weights load by name, none missing and none left over.

    权重能按名称加载，不多也不少。
    """
    expect_shape(made(student, NAME, case)(case["x"]), case["x"].shape, case)


@cases("feed_forward_core")
def test_feed_forward_tokens(student: Student, case: Case) -> None:
    """Every token is computed on its own, in any shape [..., hidden].

    每个 token 独立计算，形状 [..., hidden] 任意。
    """
    module, last = made(student, NAME, case), (-1, -1)
    before = module(case["x"])
    huge = module(changed_at(case["x"], (slice(None), slice(0, -1)), 1000.0))
    alone = module(Tensor.of(case["x"].array[last]))
    thin = module(Tensor.of(case["x"].array[:, -1:]))  # an axis of length one has to stay
    why = Text("other tokens, and other axes, do not matter.", "其他 token 与其他轴不应有影响。")
    what = Text("the output of the last token", "最后一个 token 的输出")
    expect_same(huge, before, case, why, what, part=(slice(None), slice(-1, None)))
    whole = expect_shape(before, case["y"].shape, case)
    expect_same(alone, Tensor.of(whole.array[last]), case, why, what)
    expect_same(thin, Tensor.of(whole.array[:, -1:]), case, why)


@cases("feed_forward_core")
def test_feed_forward_pure(student: Student, case: Case) -> None:
    """It does not change its input, which need not be contiguous; calls repeat.

    不修改输入（输入不必是连续存储的），相同的调用得到相同的结果。
    """
    module = made(student, NAME, case)
    first, second = module(case["x"], echo=True), module(case["x"])
    strided = module(turned(student, case["x"], 0, 1))
    other = changed_at(case["x"], (...,))
    later, new = (one(other) for one in (module, made(student, NAME, case)))
    value, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    expect_same(second, value, case, AGAIN)
    expect_same(strided, value, case, STRIDES)
    expect_same(later, new, case, AGAIN)


@cases("feed_forward_bfloat16")
def test_feed_forward_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    narrow = made(student, NAME, case)(case["x"])
    plain = made(student, NAME, case, wide=True)(widened(case["x"]))
    expect_alike(narrow, plain, case)

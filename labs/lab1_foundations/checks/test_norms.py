"""Checks of ``LayerNorm`` and ``RMSNorm``."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_parameter,
    expect_same,
    expect_shape,
    expect_unlike,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab1_foundations.checks.calls import (
    STRIDES,
    changed_at,
    expect_alike,
    expect_kept,
    made,
    turned,
    widened,
)

LAYER, RMS = "mlp.LayerNorm", "mlp.RMSNorm"
DEFAULT_EPS = {LAYER: 1e-5, RMS: 1e-6}
AFFINE = Text(
    "the weight scales the normed values, feature by feature.", "weight 逐特征缩放归一化后的值。"
)
SHIFTED = Text(
    "the weight scales the normed values, feature by feature, and the bias is added to that.",
    "weight 逐特征缩放归一化后的值，再加上 bias。",
)
NEW = Text("a new module starts with the weight 1.", "新建的模块 weight 初始为 1。")
NEW_SHIFTED = Text(
    "a new module starts with the weight 1 and the bias 0.",
    "新建的模块 weight 初始为 1，bias 初始为 0。",
)
ALONE = Text("every token is normed by itself.", "每个 token 单独归一化。")


def _name(case: Case) -> str:
    return RMS if case.recipe.startswith("rms_norm") else LAYER


@checks("""
    test_layer_norm_runs: layer_norm_core
        It runs and keeps the shape.
        能运行，并保持形状不变。

    test_rms_norm_runs: rms_norm_core
        It runs and keeps the shape.
        能运行，并保持形状不变。
    """)
def _expect_runs(student: Student, case: Case) -> None:
    module = made(student, _name(case), case, loaded=False)
    # Written down here, so that a forbidden function is seen however it was reached.
    expect_shape(student.call(module, case["x"], operators=True), case["x"].shape, case)


@checks("""
    test_layer_norm_loads: layer_norm_core
        It has a weight and a bias, both [size], and nothing else.
        有 weight 和 bias，形状都是 [size]，没有其他参数。

    test_rms_norm_loads: rms_norm_core
        It has a weight, [size], and nothing else.
        只有一个 weight，形状为 [size]，没有其他参数。
    """)
def _expect_loads(student: Student, case: Case) -> None:
    module = made(student, _name(case), case)
    expect_shape(module(case["x"]), case["x"].shape, case)
    for weight in case.weights:
        expect_parameter(student, module, weight, case)


@checks("""
    test_layer_norm_statistics: layer_norm_plain
        Every token gets the mean 0 and the variance 1.
        每个 token 的均值变为 0，方差变为 1。

    test_rms_norm_statistics: rms_norm_plain
        Every token gets the root mean square 1; its mean is left alone.
        每个 token 的均方根变为 1，不减去均值。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_close(made(student, _name(case), case)(case["x"]), case["y"], case)


@checks("""
    test_layer_norm_eps: layer_norm_tiny
        The given eps is added to the variance, under the root.
        给定的 eps 与方差相加，位于根号之内。

    test_rms_norm_eps: rms_norm_tiny
        The given eps is added to the mean square, under the root.
        给定的 eps 与均方相加，位于根号之内。
    """)
def _expect_eps(student: Student, case: Case) -> None:
    """eps has the unit of a square, and it matters, which any kind of norm has; then how much."""
    name, ten = _name(case), Tensor.of(case["x"].array * np.float32(10))
    # All are made before one is called: eps belongs to a module, and not to its class.
    modules = [made(student, name, case, eps_times=times) for times in (1.0, 100.0, 9.0)]
    before, scaled, more = (m(x) for m, x in zip(modules, (case["x"], ten, case["x"]), strict=True))
    unsaid = student.new(name, case["size"], weights=case.weights)(case["x"])
    said = student.new(name, case["size"], eps=DEFAULT_EPS[name], weights=case.weights)(case["x"])
    why = Text(
        "with inputs this small, an eps nine times as large has to change the result.",
        "输入这么小时，eps 变为九倍应当有影响。",
    )
    expect_unlike(more, before, case, why)
    why = Text(
        "ten times the input and a hundred times the eps give the same: eps stands under the root.",
        "输入变为十倍、eps 变为一百倍时结果应相同：eps 在根号之内。",
    )
    expect_same(scaled, before, case, why)
    expect_close(before, case["y"], case)
    why = Text(
        f"once no eps was passed, and once {DEFAULT_EPS[name]:g}, the default of the signature.",
        f"一次没有传入 eps，一次传入了函数签名中的默认值 {DEFAULT_EPS[name]:g}。",
    )
    expect_same(unsaid, said, case, why)


@checks("""
    test_layer_norm_tokens: layer_norm_core
        Every token is normed by itself, in any shape [..., size].
        每个 token 单独归一化，形状 [..., size] 任意。

    test_rms_norm_tokens: rms_norm_core
        Every token is normed by itself, in any shape [..., size].
        每个 token 单独归一化，形状 [..., size] 任意。
    """)
def _expect_alone(student: Student, case: Case) -> None:
    """Other tokens do not matter, and a token alone, [size], is a token."""
    module, last = made(student, _name(case), case), (-1, -1)
    before = module(case["x"])
    others = (slice(None), slice(0, -1))
    after = module(changed_at(case["x"], others))
    alone = module(Tensor.of(case["x"].array[last]))
    strided = module(turned(student, case["x"], 0, 1))
    what = Text("the output of the last token", "最后一个 token 的输出")
    expect_same(after, before, case, ALONE, what, part=(slice(None), slice(-1, None)))
    whole = expect_shape(before, case["y"].shape, case)
    expect_same(alone, Tensor.of(whole.array[last]), case, ALONE, what)
    expect_same(strided, whole, case, STRIDES)


@checks("""
    test_layer_norm_affine: layer_norm_core
        The weight starts at 1 and scales, then the bias, which starts at 0, shifts.
        weight 初始为 1，先用它缩放；bias 初始为 0，再用它平移。

    test_rms_norm_affine: rms_norm_core
        The weight starts at 1 and scales, feature by feature.
        weight 初始为 1，逐特征缩放。
    """)
def _expect_affine(student: Student, case: Case) -> None:
    """The student's own result with the weights 1 (and 0), scaled (and shifted) by us.

    A module as it is made, without any weights loaded, gives that result, too.
    """
    name, size = _name(case), case["size"]
    plain = {"weight": Tensor.of(np.ones(size, np.float32))}
    bias = case.weights.get("bias")
    if bias is not None:
        plain["bias"] = Tensor.of(np.zeros(size, np.float32))
    normed = made(student, name, case, instead=plain)(case["x"])
    scaled = made(student, name, case)(case["x"])
    fresh = made(student, name, case, loaded=False)(case["x"])
    array = expect_shape(normed, case["y"].shape, case).array.astype(np.float64)
    want = array * case.weights["weight"].array + (0 if bias is None else bias.array)
    expect_same(scaled, Tensor.of(want), case, AFFINE if bias is None else SHIFTED)
    expect_same(fresh, normed, case, NEW if bias is None else NEW_SHIFTED)


@checks("""
    test_layer_norm_float16: layer_norm_float16
        float16 inputs of 20,000 neither overflow nor lose digits.
        float16 输入达 20,000 时既不溢出，也不丢失精度。

    test_rms_norm_float16: rms_norm_float16
        float16 inputs of 300 do not overflow.
        float16 输入达 300 时不会溢出。
    """)
def _expect_half(student: Student, case: Case) -> None:
    narrow = made(student, _name(case), case)(case["x"])
    plain = made(student, _name(case), case, wide=True)(widened(case["x"]))
    expect_alike(narrow, plain, case)


@cases("layer_norm_core")
def test_layer_norm_offset(student: Student, case: Case) -> None:
    """A large mean does not spoil the variance.

    均值很大时方差仍然准确。
    """
    module = made(student, LAYER, case)
    before = module(case["x"])
    after = module(Tensor.of(case["x"].array + np.float32(300)))
    why = Text(
        "subtracting the mean removes 300 that is added to every feature.",
        "每个特征加 300，会随均值一起减去。",
    )
    expect_same(after, before, case, why, limit=1e-3)


@checks("""
    test_layer_norm_dtype: layer_norm_bfloat16
        bfloat16 in, bfloat16 out, and the input stays as it is.
        输入 bfloat16，输出 bfloat16，且不修改输入。

    test_rms_norm_dtype: rms_norm_bfloat16
        bfloat16 in, bfloat16 out, and the input stays as it is.
        输入 bfloat16，输出 bfloat16，且不修改输入。
    """)
def _expect_kept(student: Student, case: Case) -> None:
    expect_kept(student, case, _name(case))

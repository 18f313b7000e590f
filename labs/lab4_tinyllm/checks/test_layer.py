"""Checks of ``Qwen3DecoderLayer``, built from stand-ins."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
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
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import CACHE, PIECES, STAND_INS, bounds, layer_of, like

INPUT = Text("hidden_states", "hidden_states")


@checks("""
    test_layer_residual: layer_silent
        If both parts output zeros, the input comes out unchanged.
        两个部分都输出零时，输入原样输出。

    test_layer_attention_branch: layer_attention
        If the MLP outputs zeros: the input, plus attention of the input after input_layernorm.
        MLP 输出零时：结果是输入，加上注意力对经过 input_layernorm 的输入算出的值。

    test_layer_mlp_branch: layer_mlp
        If attention outputs zeros: the input, plus MLP of the input after post_attention_layernorm.
        注意力输出零时：结果是输入，加上 MLP 对经过 post_attention_layernorm 的输入算出的值。

    test_layer_parity: layer_core
        Both together: the MLP reads the sum with attention's result in it, and is added to it.
        两者合在一起：MLP 读取已加上注意力结果的残差流，再加回这个残差流。

    test_layer_eps: layer_eps
        eps of the config reaches both norms.
        配置中的 eps 用于两个归一化。

    test_layer_mask: layer_masked
        The mask reaches attention.
        掩码传到注意力。

    test_layer_positions: layer_positions
        Positions reach attention.
        位置传到注意力。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    given = {"position_ids": case["positions"]}
    given |= {"attention_mask": case["mask"]} if "mask" in case.tensors else {}
    expect_close(layer_of(student, case)(case["x"], **given), case["y"], case)


@cases("layer_core")
def test_layer_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    layer = student.new("model.Qwen3DecoderLayer", config(case.config), case["layer"], *STAND_INS)
    expect_shape(layer(case["x"]), case["x"].shape, case)


@cases("layer_core")
def test_layer_loads(student: Student, case: Case) -> None:
    """Two norms, self_attn and mlp load by name, none missing and none left over.

    两个归一化、self_attn 与 mlp 按名称加载，不缺少也不多余。
    """
    expect_shape(layer_of(student, case)(case["x"]), case["x"].shape, case)


@cases("layer_core")
def test_layer_cache(student: Student, case: Case) -> None:
    """The cache reaches attention: in pieces as at once, with positions and without.

    缓存传到注意力：无论是否传入位置，分段输入与一次输入结果相同。
    """
    x, at = case["x"], case["positions"]
    batch, _, hidden = x.shape
    for given in (True, False):
        layer, cache = layer_of(student, case), student.new(CACHE)
        arrays = []
        for first, end in bounds(case["pieces"]):
            places = {"position_ids": like(at, at.array[first:end])} if given else {}
            part = layer(like(x, x.array[:, first:end]), **places, past=cache)
            arrays.append(expect_shape(part, (batch, end - first, hidden), case).array)
        whole = layer_of(student, case)(x, **({"position_ids": at} if given else {}))
        expect_shape(whole, x.shape, case)
        expect_same(Tensor.of(np.concatenate(arrays, axis=1)), whole, case, PIECES)


@cases("layer_bfloat16")
def test_layer_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    result = layer_of(student, case)(case["x"], position_ids=case["positions"])
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("layer_masked")
def test_layer_pure(student: Student, case: Case) -> None:
    """It leaves its input, mask and positions alone.

    不修改输入、掩码与位置。
    """
    given = {"attention_mask": case["mask"], "position_ids": case["positions"]}
    result = layer_of(student, case)(case["x"], **given, echo=True)
    _, args, kwargs = expect_items(result, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    for name, before in given.items():
        expect_unchanged(kwargs[name], before, case, Text(name, name))

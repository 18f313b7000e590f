"""Checks of what turns weights into codes and back.

Right code may round a number that lies between two codes either way, so codes are judged by their
distance from the weight; where a weight is whole steps, there is one right answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    OUTPUT,
    cases,
    expect_close,
    expect_dtype,
    expect_error,
    expect_items,
    expect_shape,
    expect_unchanged,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab7_engine.checks.steps import (
    CODES,
    PACKED,
    SCALES,
    ZEROS,
    Array,
    expect_half_step,
    expect_scales,
    grouped,
    ranges,
    unpacked,
)

WEIGHT = Text("the weight", "权重")


def _channel(student: Student, case: Case) -> tuple[Array, Any]:
    """Codes of the right kind, in float64, and scales as they came."""
    codes, scales = expect_items(student.call("mlp.quantize_per_channel", case["w"]), 2, case)
    codes = expect_shape(expect_dtype(codes, "int8", case, CODES), case["w"].shape, case, CODES)
    return codes.array.astype(np.float64), scales


def _largest(case: Case) -> Array:
    largest: Array = np.abs(case["w"].array.astype(np.float64)).max(axis=1)
    return largest


@cases("channel")
def test_channel_runs(student: Student, case: Case) -> None:
    """It gives int8 codes [out, in] and float32 scales [out].

    给出 int8 编码 [out, in] 与 float32 的 scale [out]。
    """
    _, scales = _channel(student, case)
    expect_shape(expect_dtype(scales, "float32", case, SCALES), case["w"].shape[:1], case, SCALES)


@cases("channel", "channel_bfloat16")
def test_channel_scales(student: Student, case: Case) -> None:
    """Every row has its own scale: its largest magnitude over 127, computed in float32.

    每行有自己的 scale：该行最大绝对值除以 127，用 float32 计算。
    """
    expect_scales(_channel(student, case)[1], _largest(case) / 127, case)


@cases("channel", "channel_bfloat16")
def test_channel_half_step(student: Student, case: Case) -> None:
    """Codes times scales are within half a step of the weight; the largest number's code is ±127.

    编码乘以 scale 与权重处处相差不超过半步；绝对值最大的数编码为 ±127。
    """
    codes, scales = _channel(student, case)
    tensor = expect_shape(scales, case["w"].shape[:1], case, SCALES)
    weight = case["w"].array
    expect_half_step(weight, codes, tensor.array[:, None].astype(np.float64), case)
    at = np.arange(len(weight)), np.abs(weight).argmax(axis=1)
    want = np.sign(weight[at]) * 127
    expect_close(Tensor.of(codes[at].astype(np.float32)), Tensor.of(want), case, CODES)


@cases("channel_zero_row")
def test_channel_zero_row(student: Student, case: Case) -> None:
    """A row of zeros has codes 0 and scale 1.

    全零的行编码为 0，scale 为 1。
    """
    codes, scales = _channel(student, case)
    want = _largest(case) / 127
    want[case["row"]] = 1.0
    expect_scales(scales, want, case)
    if codes[case["row"]].any():
        raise reject(float(np.abs(codes[case["row"]]).max()), Text("0", "0"), case, CODES)


def _packed(student: Student, case: Case) -> tuple[Array, Any, Any]:
    """Codes ``[out, in]`` in float64, and scales and zero points as they came."""
    result = student.call("mlp.quantize_groups", case["w"], case["size"])
    packed, scales, zeros = expect_items(result, 3, case)
    out, width = case["w"].shape
    packed = expect_dtype(packed, "uint8", case, PACKED)
    packed = expect_shape(packed, (out, width // 2), case, PACKED)
    return unpacked(packed.array), scales, zeros


def _groups(student: Student, case: Case) -> tuple[Array, Array, Array]:
    """Codes ``[out, groups, size]``, scales and zero points ``[out, groups, 1]``, in float64."""
    codes, scales, zeros = _packed(student, case)
    shape = case["w"].shape[0], case["w"].shape[1] // case["size"]
    parts = [
        expect_shape(part, shape, case, what).array[..., None].astype(np.float64)
        for part, what in ((scales, SCALES), (zeros, ZEROS))
    ]
    return grouped(codes, case["size"]), parts[0], parts[1]


def _want_scales(case: Case) -> Array:
    low, high = ranges(grouped(case["w"].array, case["size"]))
    return (high - low) / 15


@cases("groups")
def test_groups_runs(student: Student, case: Case) -> None:
    """It gives bytes [out, in / 2], and a scale and a uint8 zero point for every group.

    给出字节 [out, in / 2]，以及每组一个 scale 和一个 uint8 零点。
    """
    _groups(student, case)
    _, scales, zeros = _packed(student, case)
    expect_dtype(scales, "float32", case, SCALES)
    expect_dtype(zeros, "uint8", case, ZEROS)


@checks("""
    test_groups_scales: groups groups_one_sided groups_bfloat16
        A scale is a fifteenth of the group's range, which contains 0, computed in float32.
        scale 是该组范围（必须包含 0）的十五分之一，用 float32 计算。
    """)
def _expect_group_scales(student: Student, case: Case) -> None:
    expect_scales(_packed(student, case)[1], _want_scales(case), case)


@cases("groups", "groups_one_sided", "groups_ties", "groups_near_ties")
def test_groups_zeros(student: Student, case: Case) -> None:
    """A zero point, from 0 to 15, is the code whose number is nearest to 0.

    零点是所代表的数最接近 0 的编码，取值 0 到 15。
    """
    zeros = _groups(student, case)[2]
    low, _ = ranges(grouped(case["w"].array, case["size"]))
    with np.errstate(all="ignore"):
        gaps = np.abs(zeros[..., 0] + low / _want_scales(case))
    if not (gaps <= 0.5 + 1e-3).all():
        place = [int(i) for i in np.unravel_index(np.argmax(gaps), gaps.shape)]
        exact = float((-low / _want_scales(case))[tuple(place)])
        want = Text(f"a whole number next to {exact:.2f}", f"最接近 {exact:.2f} 的整数")
        what = Text(f"the zero point at {place}", f"{place} 处的零点")
        raise reject(float(zeros[(*place, 0)]), want, case, what)


@cases("groups", "groups_one_sided", "groups_ties")
def test_groups_half_step(student: Student, case: Case) -> None:
    """No weight is further than half a step from what its code stands for.

    每个权重与其编码所代表的数相差不超过半步。
    """
    codes, scales, zeros = _groups(student, case)
    why = Text(" (codes count from the rounded zero point)", "（编码从舍入之后的零点数起）")
    expect_half_step(grouped(case["w"].array, case["size"]), codes - zeros, scales, case, why)


@cases("groups_packing")
def test_groups_packing(student: Student, case: Case) -> None:
    """The even column is in the low four bits of its byte, its neighbour in the high ones.

    偶数列放在字节的低四位，相邻的下一列放在高四位。
    """
    codes, want = _packed(student, case)[0], unpacked(case["packed"].array)
    if (other := codes != want).any():
        place = tuple(int(i) for i in np.argwhere(other)[0])
        what = Text(f"the code of column {place[1]} in row {place[0]}",
                    f"第 {place[0]} 行第 {place[1]} 列的编码")  # fmt: skip
        code = int(want[place])
        raise reject(int(codes[place]), Text(str(code), str(code)), case, what)


@cases("groups_zero")
def test_groups_zero(student: Student, case: Case) -> None:
    """A group of zeros, and no other, has scale 1, zero point 0 and codes 0.

    全零的组 scale 为 1，零点为 0，编码为 0；其他组不然。
    """
    codes, scales, zeros = _groups(student, case)
    at = case["row"], case["group"]
    for got, want, what in (
        (codes[at].max(), 0, CODES),
        (scales[at][0], 1, SCALES),
        (zeros[at][0], 0, ZEROS),
    ):
        if not got == want:
            raise reject(float(got), Text(str(want), str(want)), case, what)
    if not codes.any():
        raise reject(0.0, Text("not 0 in every group", "并非每组都是 0"), case, CODES)


@cases("groups_uneven")
def test_groups_uneven(student: Student, case: Case) -> None:
    """A group size that does not divide the columns is a ValueError; what is given stays as it was.

    group_size 不能整除列数时抛出 ValueError；传入的张量不被修改。
    """
    size = case["size"]
    fits = Tensor.of(case["w"].array[:, : case["w"].shape[1] // size * size])
    first = student.call("mlp.quantize_groups", fits, size, echo=True)
    value, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], fits, case, WEIGHT)
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise reject(value, Text("a tuple of 3", "含 3 项的 tuple"), case)
    second = student.call("mlp.dequantize_groups", *value, size, echo=True)
    _, after, _ = expect_items(second, 3, case)
    for now, before, what in zip(after, value, (PACKED, SCALES, ZEROS), strict=False):
        expect_unchanged(now, before, case, what)
    result = student.call("mlp.quantize_groups", case["w"], size)
    why = Text("the last group would be short.", "最后一组会不完整。")
    expect_error(result, "ValueError", "group_size", case, why)


@checks("""
    test_dequantize_parity: dequantize_at_zero dequantize
        First the zero point is subtracted, then the result is multiplied by the group's scale.
        先减去零点，再乘以所在组的 scale。
    """)
def _expect_widened(student: Student, case: Case) -> None:
    given = (case[name] for name in ("packed", "scales", "zeros"))
    result = student.call("mlp.dequantize_groups", *given, case["size"])
    tensor = expect_dtype(result, "float32", case)
    expect_close(tensor, case["y"], case, _in_steps(tensor, case))


def _in_steps(got: Tensor, case: Case) -> Text:
    """The output; where a number is wrong, with the first that is, as multiples of its scale."""
    want = case["y"].array
    if got.shape != want.shape:
        return OUTPUT
    scales, zeros = (case[name].array.repeat(case["size"], axis=1) for name in ("scales", "zeros"))
    with np.errstate(all="ignore"):
        steps = got.array / scales
    wrong = np.argwhere(~(np.abs(steps - want / scales) <= 1e-2))
    if not len(wrong):
        return OUTPUT
    place = tuple(int(i) for i in wrong[0])
    code, zero = int(unpacked(case["packed"].array)[place]), int(zeros[place])
    return Text(
        f"the output (at {[*place]} {steps[place]:.4g} times the scale; code less zero point is "
        f"{code} - {zero} = {code - zero})",
        f"输出（{[*place]} 处是 scale 的 {steps[place]:.4g} 倍；编码减零点为 "
        f"{code} - {zero} = {code - zero}）",
    )


@cases("channel")
def test_channel_pure(student: Student, case: Case) -> None:
    """It leaves the weight alone.

    不修改传入的权重。
    """
    result = student.call("mlp.quantize_per_channel", case["w"], echo=True)
    expect_unchanged(expect_items(result, 3, case)[1][0], case["w"], case, WEIGHT)

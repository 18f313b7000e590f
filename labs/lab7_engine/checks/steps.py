"""How the checks of ``mlp.py`` read codes, and how far these may be from the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import expect_close, expect_dtype, expect_shape, reject
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.wire.messages import Tensor

CODES = Text("the codes", "编码")
PACKED = Text("the packed codes", "打包后的编码")
SCALES = Text("the scales", "scale")
ZEROS = Text("the zero points", "零点")

# Half a step, and what float32 rounds: a code of 127 is divided to some 1e-5 of a step.
HALF = 0.5 + 1e-3

Array = NDArray[Any]


def expect_scales(scales: Any, want: Array, case: Case) -> None:
    """Scales in float32, each by itself near the one wanted."""
    tensor = expect_shape(expect_dtype(scales, "float32", case, SCALES), want.shape, case, SCALES)
    column = Tensor.of(tensor.array[..., None])
    expect_close(column, Tensor.of(want[..., None].astype(np.float32)), case, SCALES)


def expect_half_step(
    weight: Array, distance: Array, scales: Array, case: Case, why: Text | None = None
) -> None:
    """``distance`` steps from 0 are nowhere more than half a step from ``weight``."""
    with np.errstate(all="ignore"):
        gaps = np.abs(weight.astype(np.float64) - distance * scales) / np.abs(scales)
    if not (gaps <= HALF).all():
        worst = np.unravel_index(np.argmax(np.nan_to_num(gaps, nan=np.inf)), gaps.shape)
        place = [int(i) for i in worst[:2]]
        what = Text(
            f"the distance between the weight at {place} and what its code stands for, in steps,",
            f"{place} 处的权重与编码所代表的数之差（以步计）",
        )
        more = why or Text("", "")
        want = Text(f"at most 0.5{more.en}", f"至多 0.5{more.zh}")
        raise reject(round(float(gaps[worst]), 3), want, case, what)


def grouped(values: Array, size: int) -> Array:
    """``[out, in]`` as ``[out, groups, size]``."""
    return values.reshape(len(values), -1, size)


def unpacked(packed: Array) -> Array:
    """Bytes ``[out, in / 2]`` as codes ``[out, in]``, the low four bits first."""
    return np.stack((packed & 15, packed >> 4), axis=-1).reshape(len(packed), -1).astype(np.float64)


def ranges(groups: Array) -> tuple[Array, Array]:
    """Where the ranges of groups begin and end, 0 included, in float64."""
    wide = groups.astype(np.float64)
    return np.minimum(wide.min(-1), 0), np.maximum(wide.max(-1), 0)

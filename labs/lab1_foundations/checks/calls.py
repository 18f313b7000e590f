"""How the checks of lab 1 call it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autograder.checks.expect import (
    OUTPUT,
    CheckFailed,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS, Limit
from autograder.sandbox.student import Handle, Result, Student
from autograder.wire.messages import Tensor

INPUT = Text("the input x", "输入 x")
STRIDES = Text("only its place in memory differs.", "只是在内存中的排列不同。")
AGAIN = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")

# At 10,000 float32 knows three digits after the point: x - logsumexp(x) is right, and that coarse.
COARSE = Limit(2e-3, 2e-2)

# As much as three roundings, of half a step each, may take from a number; relative, by dtype.
THREE_ROUNDINGS = {"float16": 1.5 * 2**-10, "bfloat16": 1.5 * 2**-7}


def made(
    student: Student,
    path: str,
    case: Case,
    *,
    loaded: bool = True,
    instead: Mapping[str, Tensor] | None = None,
    wide: bool = False,
    eps_times: float = 1.0,
) -> Handle:
    """A module of the student's with the sizes, eps and weights of the case.

    ``instead`` replaces some weights, ``wide`` makes it in float32 whatever the case's dtype.
    """
    sizes = case.values.get("sizes") or [case["size"]]
    options = {"eps": case["eps"] * eps_times} if "eps" in case.values else {}
    weights = case.weights | dict(instead or {}) if loaded else None
    dtype = case.values.get("dtype", "float32")
    if wide:
        dtype, weights = "float32", {n: widened(w) for n, w in (weights or {}).items()}
    return student.new(path, *sizes, weights=weights, dtype=dtype, **options)


def changed_at(tensor: Tensor, part: tuple[object, ...], factor: float = -1.5) -> Tensor:
    """A copy with other values in one part."""
    array = tensor.array.copy()
    array[part] = array[part] * factor + 0.7  # type: ignore[index]
    return Tensor.of(array)


def expect_kept(student: Student, case: Case, path: str, *more: int) -> list[Tensor]:
    """Calls with ``x`` (and ``more``), as it is and in float32, keep its dtype and its values.

    ``path`` names a function or, where the case has weights, a class. Both answers come back.
    """
    calls = []
    found = []
    for x in (case["x"], widened(case["x"])):
        wide = x.dtype == "float32"
        target = made(student, path, case, wide=wide) if case.weights else path
        calls.append((x, student.call(target, x, *more, echo=True)))
    for x, result in calls:
        value, args, _ = expect_items(result, 3, case)
        found.append(expect_dtype(value, x.dtype, case))
        expect_unchanged(args[0], x, case, INPUT)
    return found


def expect_alike(narrow: Result, wide: Result, case: Case, what: Text = OUTPUT) -> None:
    """A result in a narrow dtype keeps it, and is that of the same call in float32, rounded."""
    dtype = case["dtype"]
    expect_dtype(narrow, dtype, case, what)
    why = Text(
        f"{dtype} has to give what your code gives in float32, except for rounding.",
        f"除舍入误差外，{dtype} 的结果应与你的代码在 float32 下的结果相同。",
    )
    expect_same(narrow, wide, case, why, what, limit=LIMITS[dtype].tensor)


def widened(tensor: Tensor) -> Tensor:
    """The same values in float32; a mask of bool stays one."""
    return tensor if tensor.dtype == "bool" else Tensor.of(tensor.array.astype(np.float32))


def turned(student: Student, tensor: Tensor, one: int, other: int) -> Handle:
    """The same values, two axes exchanged in memory: a tensor that is not contiguous."""
    return student.new(
        "torch.transpose", Tensor.of(np.ascontiguousarray(tensor.array.swapaxes(one, other))),
        one, other,
    )  # fmt: skip


def expect_sees(result: Result, case: Case) -> None:
    """A mask has to let every query see the right keys; the first that is wrong is named."""
    allowed = case["allowed"].array
    got = expect_shape(result, allowed.shape, case, Text("the mask", "掩码")).array != 0
    for row, (has, wants) in enumerate(zip(got, allowed, strict=True)):
        if (has != wants).any():
            values = {"row": row, "rows": len(allowed), "case": case.words}
            raise CheckFailed("check.sees", got=_keys(has), want=_keys(wants), **values)


def _keys(row: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> dict[str, str]:
    seen = [str(key) for key in np.flatnonzero(row)]
    keys = ", ".join(seen if len(seen) < 16 else [*seen[:3], "…", *seen[-3:]])
    return {"en": f"the keys [{keys}]", "zh": f"键 [{keys}]"}

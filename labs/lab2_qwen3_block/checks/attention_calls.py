"""How the checks of attention call it."""

from __future__ import annotations

from autograder.checks.expect import config, expect_close
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Student
from autograder.wire.messages import Tensor


def attention_of(student: Student, case: Case, **changed: Tensor) -> Handle:
    """The student's attention with the case's weights, some of them replaced."""
    weights = case.weights | {name.replace("__", "."): t for name, t in changed.items()}
    dtype = case.values.get("dtype", "float32")
    return student.new(
        "attention.Qwen3Attention", config(case.config), weights=weights, dtype=dtype
    )


def arguments_of(case: Case) -> dict[str, Tensor]:
    """The mask and the positions that a case gives, under the names of the lab."""
    names = {"attention_mask": "mask", "position_ids": "positions"}
    return {name: case[key] for name, key in names.items() if key in case.tensors}


def expect_parity(student: Student, case: Case, **options: object) -> None:
    """The whole answer to a case, near the reference."""
    result = attention_of(student, case)(case["x"], **arguments_of(case))
    expect_close(result, case["y"], case, **options)  # type: ignore[arg-type]


def changed_at(tensor: Tensor, part: tuple[object, ...], factor: float = -1.5) -> Tensor:
    """A copy with other values in one part."""
    array = tensor.array.copy()
    array[part] = array[part] * factor + 0.7  # type: ignore[index]
    return Tensor.of(array)

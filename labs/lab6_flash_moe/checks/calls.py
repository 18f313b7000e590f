"""How the checks of lab 6 call what students write, and what they read from routed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    CheckFailed,
    expect_close,
    expect_dtype,
    expect_items,
    expect_shape,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Named, Result, Student
from autograder.wire.messages import Tensor

LOGITS = Text("the router's logits", "路由器的 logits")
WEIGHTS = Text("the routing weights", "路由权重")
CHOSEN = Text("the numbers of the experts", "专家的编号")


def blocks_of(case: Case) -> list[Tensor]:
    """The blocks of a case, in order."""
    return [tensor for _, tensor in sorted(case.group("b.").items())]


def one_after_the_other(
    student: Student, case: Case, function: Handle | Named, *calls: Sequence[Any]
) -> Sequence[Any]:
    """What calls gave, looked at when all are done; each is a list of arguments."""
    made = student.new("builtins.map", function, *zip(*calls, strict=True))
    return expect_items(student.call("builtins.list", made), len(calls), case)


def flash(
    student: Student,
    case: Case,
    *,
    blocks: tuple[int, int] | None = None,
    changed: dict[str, Tensor] | None = None,
    **options: Any,
) -> Result:
    """Attention on a case, with other blocks or other tensors where they are given."""
    q, k, v = ((changed or {}).get(name) or case[name] for name in "qkv")
    sizes = blocks or case["blocks"]
    return student.call("attention.flash_attention", q, k, v, case["causal"], *sizes, **options)


def expect_parity(student: Student, case: Case, **options: Any) -> None:
    """The whole answer to a case of attention near the reference."""
    expect_close(flash(student, case), case["y"], case, **options)


def router_of(student: Student, case: Case) -> Handle:
    """The student's router with the case's weights."""
    hidden, experts, top_k = case["size"]
    dtype = case.values.get("dtype", "float32")
    path = "mlp.Router"
    return student.new(
        path, hidden, experts, top_k, case["norm"], weights=case.weights, dtype=dtype
    )


def routed(student: Student, case: Case) -> tuple[Tensor, NDArray[Any], NDArray[Any]]:
    """What the router gives: logits, weights and numbers of experts, of the right shapes."""
    value = expect_items(router_of(student, case)(case["x"]), 3, case)
    tokens, (_, _, top_k) = case["x"].shape[0], case["size"]
    logits = expect_shape(value[0], case["logits"].shape, case, LOGITS)
    weights = expect_shape(value[1], (tokens, top_k), case, WEIGHTS)
    chosen = expect_shape(value[2], (tokens, top_k), case, CHOSEN)
    if not chosen.dtype.startswith("int"):
        expect_dtype(chosen, "int64", case, CHOSEN)
    return logits, weights.array, chosen.array


def expect_chosen(chosen: NDArray[Any], case: Case) -> None:
    """Per token the same experts as the reference's, in any order."""
    want = case["dense"].array > 0  # [tokens, experts]
    for token, (got, right) in enumerate(zip(np.sort(chosen, -1).tolist(), want, strict=True)):
        expected = np.flatnonzero(right).tolist()
        if got != expected:
            raise CheckFailed(
                "check.chosen", case=case.words, token=token, got=str(got), want=str(expected)
            )


def by_expert(weights: NDArray[Any], chosen: NDArray[Any], case: Case) -> Tensor:
    """Weights as ``[tokens, experts]``, zero where an expert is not chosen: order plays no part."""
    dense = np.zeros(case["dense"].shape, np.float32)
    inside = chosen.clip(0, dense.shape[1] - 1)
    np.add.at(dense, (np.arange(len(dense))[:, None], inside), weights)
    return Tensor.of(dense)


def experts_of(student: Student, case: Case) -> Handle:
    """The student's experts with the case's weights."""
    dtype = case.values.get("dtype", "float32")
    return student.new("mlp.Experts", *case["size"], weights=case.weights, dtype=dtype)


def mixed(student: Student, case: Case, **options: Any) -> Result:
    """The experts on a case that is routed already."""
    experts = experts_of(student, case)
    return student.call(experts, case["x"], case["chosen"], case["shares"], **options)


def block_of(student: Student, case: Case) -> Handle:
    """The student's whole block with the case's weights."""
    hidden, inner, experts, top_k = case["size"]
    sizes = hidden, inner, experts, top_k, case["norm"]
    dtype = case.values.get("dtype", "float32")
    return student.new("mlp.SparseMoeBlock", *sizes, weights=case.weights, dtype=dtype)

"""Checks of ``Router``. Answers are compared by expert: no order within a token is promised."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_parameter,
    expect_same,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab6_flash_moe.checks.calls import (
    CHOSEN,
    LOGITS,
    WEIGHTS,
    by_expert,
    expect_chosen,
    routed,
    router_of,
)

SUMS = Text("the sum of a token's weights", "每个 token 的权重之和")


@cases("router_plain", "router_normed")
def test_router_runs(student: Student, case: Case) -> None:
    """Its weight loads, and it gives logits, weights and numbers of the right shapes.

    权重能加载，返回形状正确的 logits、权重与编号。
    """
    routed(student, case)
    expect_parameter(student, router_of(student, case), "weight", case)


@cases("router_plain")
def test_router_logits(student: Student, case: Case) -> None:
    """The logits are those of a linear layer, before any softmax.

    logits 是线性层的输出，尚未经过 softmax。
    """
    expect_close(routed(student, case)[0], case["logits"], case, LOGITS)


@cases("router_plain", "router_normed")
def test_router_chosen(student: Student, case: Case) -> None:
    """Each token gets the top_k experts with the largest logits.

    每个 token 选中 logits 最大的 top_k 个专家。
    """
    expect_chosen(routed(student, case)[2], case)


@cases("router_normed", "router_single")
def test_router_sums(student: Student, case: Case) -> None:
    """With norm_topk_prob the weights of a token sum to one.

    norm_topk_prob 为 True 时，每个 token 的权重之和为一。
    """
    weights = routed(student, case)[1].astype(np.float64)
    ones = np.ones((len(weights), 1))
    expect_close(Tensor.of(weights.sum(-1, keepdims=True)), Tensor.of(ones), case, SUMS)


@checks("""
    test_router_normed: router_normed
        With norm_topk_prob each expert has the right weight.
        norm_topk_prob 为 True 时，每个专家的权重正确。

    test_router_plain: router_plain
        Without norm_topk_prob the weights are probabilities among all experts.
        norm_topk_prob 为 False 时，权重是在全部专家中的概率。
    """)
def _expect_weights(student: Student, case: Case) -> None:
    _, weights, chosen = routed(student, case)
    expect_close(by_expert(weights, chosen, case), case["dense"], case, WEIGHTS)


@cases("router_bfloat16", "router_near")
def test_router_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 logits and weights out, and the same experts.

    输入 bfloat16，logits 与权重输出 bfloat16，选中的专家不变。
    """
    logits, weights, chosen = expect_items(router_of(student, case)(case["x"]), 3, case)
    expect_dtype(logits, "bfloat16", case, LOGITS)
    expect_dtype(weights, "bfloat16", case, WEIGHTS)
    expect_dtype(chosen, "int64", case, CHOSEN)
    _, weights, chosen = routed(student, case)
    expect_chosen(chosen, case)
    expect_close(by_expert(weights, chosen, case), case["dense"], case, WEIGHTS)


@cases("router_normed")
def test_router_pure(student: Student, case: Case) -> None:
    """It leaves its input alone, and the same call gives the same result, in training, too.

    不修改输入，相同的调用得到相同的结果，训练时也一样。
    """
    router = router_of(student, case)
    first = router(case["x"], echo=True)
    student.call(router, True, method="train")
    second = router(student.new("torch.t", np.ascontiguousarray(case["x"].array.T)))
    value, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, Text("x", "x"))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    again, before = (expect_items(one, 3, case)[1] for one in (second, value))
    expect_same(again, before, case, why, WEIGHTS)

"""Checks of ``load_balancing_loss``."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    expect_tensor,
    expect_unchanged,
    reject,
    works,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Named, Result, Student
from labs.lab6_flash_moe.checks.calls import blocks_of

LOSS = Text("the loss", "损失")
SLOPE = Text("the gradient of the loss at the first layer's logits", "损失对第一层 logits 的梯度")


def _loss(student: Student, case: Case) -> Result:
    given = {"attention_mask": case["mask"]} if "mask" in case.tensors else {}
    return student.call("mlp.load_balancing_loss", blocks_of(case), *case["size"], **given)


@cases("loss_one_layer")
def test_loss_runs(student: Student, case: Case) -> None:
    """It runs on one layer and gives a scalar.

    对单层能运行，返回标量。
    """
    expect_shape(_loss(student, case), (), case, LOSS)


@checks("""
    test_loss_balanced: loss_balanced
        If all experts are used equally, it is top_k.
        所有专家使用均衡时，损失等于 top_k。

    test_loss_parity: loss_one_layer loss_unused
        On one layer it equals that of Hugging Face.
        对单层，与 Hugging Face 一致。

    test_loss_layers: loss_layers
        The tokens of all layers are averaged together, not layer by layer.
        多层的 token 合在一起取平均，而不是逐层计算。

    test_loss_masked: loss_masked loss_masked_alone
        Padding counts in neither mean nor in n; the mask is that of each layer in turn.
        填充不计入两个平均，也不计入 n；掩码依次对应每一层。
    """)
def _expect_loss(student: Student, case: Case) -> None:
    expect_close(_loss(student, case), case["loss"], case, LOSS)


@cases("loss_one_layer", "loss_layers", "loss_masked")
def test_loss_gradient(student: Student, case: Case) -> None:
    """It can be used for training, masked or not: gradients go through probabilities, not shares.

    有无掩码都可以用来训练：梯度经过概率传回，而不经过占比。
    """
    # Looked at first: a wrong number may have no gradient, either, and is another mistake.
    loss, layers = expect_tensor(_loss(student, case), case, LOSS), blocks_of(case)
    if len(layers) > 1 and not works(student, lambda: expect_close(loss, case["loss"], case)):
        return  # It costs the points of layers or masks, and none here.
    mask = [case["mask"]] if "mask" in case.tensors else []
    function = Named("mlp.load_balancing_loss")
    gradient = "labs.given.gradient.gradient_of"
    result = student.call(gradient, function, layers, *case["size"], *mask)
    expect_close(result, case["slope"], case, SLOPE)


@cases("loss_masked")
def test_loss_pure(student: Student, case: Case) -> None:
    """It leaves logits and mask alone, which need not be contiguous.

    不修改 logits 与掩码，它们不必是连续存储的。
    """
    layers, function = blocks_of(case), "mlp.load_balancing_loss"
    asked = student.call(function, layers, *case["size"], case["mask"], echo=True)
    first, (after, _, _, mask), _ = expect_items(asked, 3, case)
    *turned, aside = (
        student.new("torch.t", np.ascontiguousarray(one.array.T)) for one in (*layers, case["mask"])
    )
    why = Text("only their place in memory differs.", "只是在内存中的排列不同。")
    expect_same(student.call(function, turned, *case["size"], aside), first, case, why, LOSS)
    whole = Text(f"the {len(layers)} layers that it was", f"原来的 {len(layers)} 层")
    if not isinstance(after, (list, tuple)) or len(after) != len(layers):
        raise reject(after, whole, case, Text("the list, after the call", "调用之后的列表"))
    for number, (now, logits) in enumerate(zip(after, layers, strict=True)):
        expect_unchanged(now, logits, case, Text(f"layer {number}", f"第 {number} 层"))
    expect_unchanged(mask, case["mask"], case, Text("attention_mask", "attention_mask"))

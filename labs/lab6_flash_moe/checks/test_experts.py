"""Checks of ``Experts`` on tokens that the case has routed."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.costs import expect_bytes, expect_flops, measured
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_parameter,
    expect_same,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab6_flash_moe.checks.calls import experts_of, mixed, one_after_the_other

# Measured with ten right styles (expert by expert in several ways, sorted and split, place by
# place, token by token, copied and grouped): 1.00 to 1.01 times the ideal FLOPs, and 0.4 to 1.8
# times the bytes of x and both halves of gate_up for every pair of token and expert. All experts
# for all tokens take 8 times the ideal, and weights gathered for every token 45 times the bytes.
MOST_FLOPS = 1.1
MOST_BYTES = 4


@cases("experts_core")
def test_experts_runs(student: Student, case: Case) -> None:
    """Its weights load, and it gives [tokens, hidden].

    权重能加载，输出形状为 [tokens, hidden]。
    """
    expect_shape(mixed(student, case), case["y"].shape, case)
    experts = experts_of(student, case)
    for name in ("gate_up_proj", "down_proj"):
        expect_parameter(student, experts, name, case)


@checks("""
    test_experts_one: experts_one
        A single expert is a gated MLP: SiLU of the gate, times up, then down.
        单个专家就是门控 MLP：门经过 SiLU，乘以 up，再经过 down。

    test_experts_weights: experts_shares
        The output of an expert is multiplied by the token's weight for it.
        专家的输出乘以该 token 对它的权重。

    test_experts_dispatch: experts_dispatch
        Every token goes to the expert it chose, and comes back to its own place.
        每个 token 去往它选中的专家，结果回到它自己的位置。

    test_experts_sum: experts_sum
        The outputs of all experts of a token are added up.
        一个 token 的所有专家的输出要相加。

    test_experts_parity: experts_core
        With several experts per token, what the experts give equals that of Hugging Face.
        每个 token 有多个专家时，专家的输出与 Hugging Face 一致。

    test_experts_unused: experts_unused
        Experts that nobody chose change nothing.
        没有被选中的专家不影响结果。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_close(mixed(student, case), case["y"], case)


@cases("experts_core")
def test_experts_alone(student: Student, case: Case) -> None:
    """A token gives the same result on its own, whatever the others choose.

    一个 token 单独计算时结果相同，与其他 token 的选择无关。
    """
    experts, last = experts_of(student, case), slice(case["x"].shape[0] - 1, None)
    names = ("x", "chosen", "shares")
    whole = expect_shape(experts(*(case[n] for n in names)), case["y"].shape, case)
    alone = experts(*(Tensor.of(case[n].array[last]) for n in names))
    why = Text("tokens have nothing to do with each other.", "各 token 互不相关。")
    expect_same(alone, Tensor.of(whole.array[last]), case, why)


@cases("experts_bfloat16")
def test_experts_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    result = mixed(student, case)
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("experts_core")
def test_experts_pure(student: Student, case: Case) -> None:
    """It changes neither inputs (contiguous or not) nor earlier results; equal calls agree.

    不修改输入（不必是连续存储的）与之前的结果，相同的调用得到相同的结果。
    """
    experts, names = experts_of(student, case), ("x", "chosen", "shares")
    given = [case[name] for name in names]
    first = experts(*given, echo=True)
    turned = [student.new("torch.t", np.ascontiguousarray(one.array.T)) for one in given]
    later = 1 - case["x"].array, *turned[1:]
    second, _ = one_after_the_other(student, case, experts, turned, later)
    value, args, _ = expect_items(first, 3, case)
    for number, name in enumerate(names):
        expect_unchanged(args[number], case[name], case, Text(name, name))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


def _needed(case: Case) -> int:
    """FLOPs of three products for every pair of a token and one of its experts."""
    hidden, inner, _ = case["size"]
    return 6 * int(case["chosen"].array.size) * int(hidden) * int(inner)


@cases("experts_cost")
def test_experts_flops(student: Student, case: Case) -> None:
    """An expert computes the tokens that chose it, and no others.

    专家只计算选中它的 token。
    """
    result = mixed(student, case, measure=0)
    expect_shape(measured(result, case)[0], case["y"].shape, case)
    why = Text(
        "that is every token through each of its experts, once; an expert without tokens takes "
        "nothing.",
        "这是所有“token 与其专家”配对所需的计算量；没有 token 的专家不需要计算。",
    )
    needed = _needed(case)
    expect_flops(result, case, needed=needed, most=MOST_FLOPS, least=needed, why=why)


@cases("experts_cost")
def test_experts_bytes(student: Student, case: Case) -> None:
    """The weights of an expert are not copied for every token.

    不为每个 token 复制一份专家的权重。
    """
    hidden, inner, _ = case["size"]
    result = mixed(student, case, measure=0)
    expect_shape(measured(result, case)[0], case["y"].shape, case)
    most = MOST_BYTES * 4 * int(case["chosen"].array.size) * (hidden + 2 * inner)
    why = Text(
        "Let one expert at a time work on its tokens, with its weights as they are.",
        "请让专家逐个处理各自的 token，直接使用其权重。",
    )
    expect_bytes(result, case, most=most, least=_needed(case), why=why)

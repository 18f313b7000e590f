"""Properties that locate a fault without a reference; asked only where no mistake is recognised."""

from __future__ import annotations

import numpy as np

from autograder.checks.expect import cases, config, expect_same, expect_tensor, expect_unlike, probe
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab2_qwen3_block.checks import test_attention, test_attention_parity
from labs.lab2_qwen3_block.checks.attention_calls import attention_of, expect_parity

ATTENTION, MLP = "lab2.attention", "lab2.mlp"
WHY = Text("this property does not hold.", "该性质不成立。")


@probe(ATTENTION)
@cases("attention_core")
def probe_future(student: Student, case: Case) -> None:
    """no output depends on a later token

    任何输出都不依赖后面的 token
    """
    test_attention.test_attention_future(student, case)


@probe(ATTENTION)
@cases("attention_token")
def probe_single_token(student: Student, case: Case) -> None:
    """a single token gives o_proj of v_proj

    单个 token 的输出等于 v_proj 再经 o_proj
    """
    expect_parity(student, case)


@probe(ATTENTION)
@cases("attention_core")
def probe_batch(student: Student, case: Case) -> None:
    """the rows of a batch do not touch each other

    批次中的各行互不影响
    """
    test_attention_parity.test_attention_batch(student, case)


@probe(ATTENTION)
@cases("attention_rotated")
def probe_shift(student: Student, case: Case) -> None:
    """moving all positions alike changes nothing

    所有位置一起移动时结果不变
    """
    attention, here = attention_of(student, case), case["positions"]
    before = attention(case["x"], position_ids=here)
    after = attention(case["x"], position_ids=Tensor.of(here.array + 40))
    expect_same(after, before, case, WHY, limit=1e-4)


@probe(ATTENTION)
@cases("attention_core")
def probe_permutation(student: Student, case: Case) -> None:
    """with a mask of zeros, when tokens swap places, so do their outputs

    掩码全为零时，token 交换位置，输出也随之交换
    """
    tokens = case["x"].shape[1]
    order = np.random.default_rng(0).permutation(tokens)
    attention, seen = attention_of(student, case), Tensor.of(np.zeros((1, 1, 1, 1), np.float32))
    plain = attention(case["x"], seen, Tensor.of(np.arange(tokens)))
    moved = attention(Tensor.of(case["x"].array[:, order]), seen, Tensor.of(order))
    back = Tensor.of(expect_tensor(moved, case).array[:, np.argsort(order)])
    expect_same(back, plain, case, WHY, limit=1e-4)


@probe(ATTENTION)
@cases("attention_core")
def probe_q_scale(student: Student, case: Case) -> None:
    """the size of q does not matter

    q 的大小无关紧要
    """
    test_attention.test_attention_q_norm(student, case)


@probe(ATTENTION)
@cases("attention_core")
def probe_k_scale(student: Student, case: Case) -> None:
    """the size of k does not matter

    k 的大小无关紧要
    """
    test_attention.test_attention_k_norm(student, case)


@probe(ATTENTION)
@cases("attention_core")
def probe_value_heads(student: Student, case: Case) -> None:
    """with the values of all kv heads but the last at zero, only its own query heads speak

    除最后一个键值头外其余键值头的值均为零时，只有它所属的查询头有输出
    """
    c = case.config
    head_dim, heads = c["head_dim"], c["num_attention_heads"]
    group = heads // c["num_key_value_heads"]
    values, out = case.weights["v_proj.weight"].array.copy(), case.weights["o_proj.weight"].array
    values[:-head_dim] = 0
    others = out.copy()  # o_proj that does not listen to the first heads
    others[:, : (heads - group) * head_dim] = 0
    whole = attention_of(student, case, v_proj__weight=Tensor.of(values))(case["x"])
    deaf = {"v_proj__weight": Tensor.of(values), "o_proj__weight": Tensor.of(others)}
    expect_same(attention_of(student, case, **deaf)(case["x"]), whole, case, WHY)


@probe(MLP)
@cases("mlp_core")
def probe_tokens(student: Student, case: Case) -> None:
    """every token is treated by itself

    每个 token 单独计算
    """
    mlp = student.new("mlp.Qwen3MLP", config(case.config), weights=case.weights)
    together, alone = mlp(case["x"]), mlp(Tensor.of(case["x"].array[:, :1]))
    first = Tensor.of(expect_tensor(together, case).array[:, :1])
    expect_same(alone, first, case, WHY)


@probe(MLP)
@cases("mlp_core")
def probe_up_is_linear(student: Student, case: Case) -> None:
    """twice up_proj gives twice the output

    up_proj 加倍，输出也加倍
    """
    _expect_twice(student, case, "up_proj.weight")


@probe(MLP)
@cases("mlp_core")
def probe_down_is_linear(student: Student, case: Case) -> None:
    """twice down_proj gives twice the output

    down_proj 加倍，输出也加倍
    """
    _expect_twice(student, case, "down_proj.weight")


@probe(MLP)
@cases("mlp_core")
def probe_gate_is_not_up(student: Student, case: Case) -> None:
    """gate_proj and up_proj cannot change places

    gate_proj 与 up_proj 不可互换
    """
    weights, names = case.weights, ("gate_proj.weight", "up_proj.weight")
    swapped = weights | dict(zip(names, (weights[n] for n in reversed(names)), strict=True))
    outputs = [
        student.new("mlp.Qwen3MLP", config(case.config), weights=w)(case["x"])
        for w in (weights, swapped)
    ]
    expect_unlike(outputs[1], outputs[0], case, WHY)


def _expect_twice(student: Student, case: Case, name: str) -> None:
    twice = case.weights | {name: Tensor.of(case.weights[name].array * 2)}
    outputs = [
        student.new("mlp.Qwen3MLP", config(case.config), weights=w)(case["x"])
        for w in (case.weights, twice)
    ]
    half = Tensor.of(expect_tensor(outputs[1], case).array.astype(np.float64) / 2)
    expect_same(half, outputs[0], case, WHY)

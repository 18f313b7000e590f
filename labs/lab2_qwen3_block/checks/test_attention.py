"""Checks of ``Qwen3Attention``, each blind to other families where that is possible."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, config, expect_same, expect_shape, expect_unlike
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab2_qwen3_block.checks.attention_calls import (
    attention_of,
    changed_at,
    expect_parity,
)

LAST_TOKEN = (slice(None), -1)
FAR = 38_000
RELATIVE = Text(
    "a rotation makes scores depend on the distance of two positions only.",
    "旋转使分数只取决于两个位置之间的距离。",
)


@cases("attention_core")
def test_attention_runs(student: Student, case: Case) -> None:
    """It runs and gives [B, T, hidden].

    能运行，输出形状为 [B, T, hidden]。
    """
    attention = student.new("attention.Qwen3Attention", config(case.config), layer_idx=1)
    # Written down here, so that a forbidden function is seen however it was reached.
    result = student.call(attention, case["x"], operators=True)
    expect_shape(result, case["x"].shape, case)


@cases("attention_core")
def test_attention_loads(student: Student, case: Case) -> None:
    """The weights of Hugging Face load by name, none missing and none left over.

    Hugging Face 的权重能按名称加载，不多也不少。
    """
    expect_shape(attention_of(student, case)(case["x"]), case["x"].shape, case)


@checks("""
    test_attention_single_token: attention_token
        A single token attends to itself: v_proj, then o_proj.
        单个 token 只关注自己：先 v_proj，再 o_proj。

    test_attention_average: attention_uniform
        With keys of zero every token averages the values, as v_proj gives them, up to its own.
        键全为零时，每个 token 得到的是 v_proj 给出的值（不做任何改动）从开头到自身的平均。

    test_attention_given_mask: attention_given_mask attention_mask_square attention_mask_heads
        A given mask is added, and alone decides who sees whom, also as [T, T] or per head.
        给定的掩码是加上去的，并由它单独决定谁能看到谁；可以是 [T, T]，也可以每个头不同。

    test_attention_value_heads: attention_token_heads
        Each query head gets the values of its own kv head.
        每个查询头使用与其对应的键值头的值。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_parity(student, case)


@cases("attention_core")
def test_attention_future(student: Student, case: Case) -> None:
    """No output depends on a later token.

    任何输出都不依赖后面的 token。
    """
    attention, why = (
        attention_of(student, case),
        Text(
            "it sees the future. Either the mask is missing, inverted, off by one, multiplied "
            "or too mild, or tokens were mixed: softmax over the wrong axis, or heads split or "
            "joined without the transpose.",
            "它看到了未来。要么掩码缺失、取反、错位一个、被乘上去，或填充值不够小，要么 token "
            "被混在一起：softmax 的轴不对，或者拆分、合并注意力头时没有 transpose。",
        ),
    )
    before, tokens = attention(case["x"]), case["x"].shape[1]
    changed = {
        first: attention(changed_at(case["x"], (slice(None), slice(first, None))))
        for first in (1, tokens - 1)
    }
    for first, after in changed.items():
        what = Text(
            f"the output before token {first}, with the tokens from there on changed,",
            f"改变 token {first} 及之后的 token，其之前的输出",
        )
        early = (slice(None), slice(0, first))
        expect_same(after, before, case, why, what, part=early)


@cases("attention_key_heads")
def test_attention_key_heads(student: Student, case: Case) -> None:
    """Each query head gets the keys of its own kv head.

    每个查询头使用与其对应的键值头的键。
    """
    heads = slice(case["first"], case["last"])
    what = Text("the heads whose keys are zero", "键为零的那些头")
    expect_parity(student, case, what=what, part=(slice(None), slice(-1, None), heads))


def _expect_normed(student: Student, case: Case, name: str) -> None:
    """The size of a projection is normed away; the weight of its norm is not."""
    projection, norm = f"{name}_proj.weight", f"{name}_norm.weight"
    weight = Tensor.of(case.weights[projection].array * np.float32(7))
    before = attention_of(student, case)(case["x"])
    after = attention_of(student, case, **{projection.replace(".", "__"): weight})(case["x"])
    other = changed_at(case.weights[norm], (slice(None, None, 2),))
    turned = attention_of(student, case, **{norm.replace(".", "__"): other})(case["x"])
    why = Text(
        f"{projection} times 7 is normed away by the QK-norm.",
        f"{projection} 乘以 7 会被 QK-norm 抵消。",
    )
    expect_same(after, before, case, why, limit=1e-4)
    own = Text(
        f"{norm} holds other numbers now; q and k each have a norm of their own.",
        f"{norm} 换成了别的数值；q 与 k 各有自己的归一化。",
    )
    expect_unlike(turned, before, case, own)


@cases("attention_core")
def test_attention_q_norm(student: Student, case: Case) -> None:
    """The size of q does not matter, since q is normed per head; the weight of q_norm does.

    q 的大小无关紧要，因为 q 按头做了归一化；q_norm 的权重则有影响。
    """
    _expect_normed(student, case, "q")


@cases("attention_core")
def test_attention_k_norm(student: Student, case: Case) -> None:
    """The size of k does not matter, since k is normed per head; the weight of k_norm does.

    k 的大小无关紧要，因为 k 按头做了归一化；k_norm 的权重则有影响。
    """
    _expect_normed(student, case, "k")


@checks("""
    test_attention_norm_weights: attention_unrotated
        With all positions 0 the scores are right: the norms, one division by sqrt(d), softmax.
        所有位置为 0 时分数正确：归一化、除以一次 sqrt(d)、softmax。

    test_attention_rotation: attention_rotated
        With norm weights of one, the rotation gives the right numbers.
        归一化权重为一时，旋转的数值正确。
    """)
def _expect_last_token(student: Student, case: Case) -> None:
    expect_parity(student, case, part=LAST_TOKEN)


@cases("attention_spread_norms")
def test_attention_norm_before_rope(student: Student, case: Case) -> None:
    """Even with norm weights that differ from feature to feature, only distances matter.

    归一化权重逐个特征不同时，也只有位置之间的距离有影响。
    """
    attention = attention_of(student, case)
    later = Tensor.of(case["positions"].array + 23)
    before = attention(case["x"], position_ids=case["positions"])
    after = attention(case["x"], position_ids=later)
    why = Text(
        "moving all positions by 23 must not matter, whatever the norm weights are.",
        "所有位置移动 23 不应有影响，无论归一化的权重是什么。",
    )
    expect_same(after, before, case, why, limit=1e-4)


@cases("attention_rotated")
def test_attention_shift(student: Student, case: Case) -> None:
    """Only distances between positions matter, and they do matter.

    只有位置之间的距离有影响，而且确实有影响。
    """
    attention = attention_of(student, case)
    here, later = case["positions"], Tensor.of(case["positions"].array + 40)
    # The config of the case allows 40,960 positions.
    far = Tensor.of(case["positions"].array + FAR)
    wider = Tensor.of(case["positions"].array * 2)
    before = attention(case["x"], position_ids=here)
    shifted = attention(case["x"], position_ids=later)
    stretched = attention(case["x"], position_ids=wider)
    distant = attention(case["x"], position_ids=far)
    expect_same(shifted, before, case, RELATIVE, limit=1e-4)
    wide = Text(
        "twice the distances between the given positions turn q and k further.",
        "给定的位置之间距离加倍后，q 与 k 转得更多。",
    )
    expect_unlike(stretched, before, case, wide)
    # float32 holds angles of 40,000 rad to 2e-3.
    what = Text(f"the output with all positions {FAR:,} later", f"所有位置都增加 {FAR:,} 时的输出")
    expect_same(distant, before, case, RELATIVE, what, limit=1e-2)

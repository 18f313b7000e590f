"""Checks of ``GroupedQueryAttention`` without a cache, each blind to other families."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    OUTPUT,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_unlike,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import (
    attention_of,
    changed_at,
    expect_parity,
    sizes,
    table_of,
)

LAST_TOKEN = (slice(None), -1)
INPUT = Text("the input x", "输入 x")
RELATIVE = Text(
    "a rotation makes scores depend on the distance of two positions only.",
    "旋转使分数只取决于两个位置之间的距离。",
)


@cases("attention_core")
def test_attention_runs(student: Student, case: Case) -> None:
    """It runs without a cache and gives [B, T, dim].

    不带缓存时能运行，输出形状为 [B, T, dim]。
    """
    attention = student.new("attention.GroupedQueryAttention", *sizes(case), None)
    # Written down here, so that a forbidden function is seen however it was reached.
    result = student.call(attention, case["x"], 0, table_of(student, case), operators=True)
    expect_shape(result, case["x"].shape, case)


@cases("attention_core")
def test_attention_loads(student: Student, case: Case) -> None:
    """Weights load by the names of the lab, none missing and none left over.

    权重按本实验的名称加载，不缺少也不多余。
    """
    result = attention_of(student, case)(case["x"], 0, table_of(student, case))
    expect_shape(result, case["x"].shape, case)


@checks("""
    test_attention_single_token: attention_token
        A single token attends to itself: wv, then wo.
        单个 token 只关注自己：先 wv，再 wo。

    test_attention_average: attention_uniform
        With keys of zero every token averages itself and all tokens before it.
        键全为零时，每个 token 对自己及之前的所有 token 取平均。

    test_attention_given_mask: attention_given_mask attention_plain_mask attention_mask_heads
        A given mask alone decides who sees whom; it may be [T, T], or differ from head to head.
        给定掩码时，由它单独决定谁能看到谁；掩码可以是 [T, T]，也可以逐头不同。

    test_attention_value_heads: attention_token_heads
        Each query head gets the values of its own kv head.
        每个查询头使用与其对应的键值头的值。

    test_attention_parity: attention_core
        The numbers equal those of Hugging Face.
        数值与 Hugging Face 一致。

    test_attention_eps: attention_tiny_inputs
        The QK-norm uses norm_eps.
        QK-norm 使用 norm_eps。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_parity(student, case)


@cases("attention_core", "attention_later")
def test_attention_future(student: Student, case: Case) -> None:
    """No output depends on a later token.

    任何输出都不依赖后面的 token。
    """
    attention, table = attention_of(student, case), table_of(student, case)
    start, tokens = case["start"], case["x"].shape[1]
    alone = Text("", "")
    if start:
        alone = Text(
            f" There is no cache here: the keys are those of the {tokens} new tokens alone.",
            f"这里没有缓存，键只属于这 {tokens} 个新 token。",
        )
    why = Text(
        "it sees the future: the mask is missing, inverted, off by one or too mild, or tokens were "
        "mixed (softmax over the wrong axis, heads and tokens in the wrong order)." + alone.en,
        "它看到了未来：掩码缺失、取反、错位一个，或被屏蔽的分数不够小；也可能是 token 被混在一起"
        "（softmax 的轴不对，或头与 token 的顺序颠倒）。" + alone.zh,
    )
    before = attention(case["x"], start, table)
    changed = {
        first: attention(changed_at(case["x"], (slice(None), slice(first, None))), start, table)
        for first in (1, tokens - 1)
    }
    for first, after in changed.items():
        what = Text(f"the output before token {first}", f"token {first} 之前的输出")
        expect_same(after, before, case, why, what, part=(slice(None), slice(0, first)))


@cases("attention_key_heads")
def test_attention_key_heads(student: Student, case: Case) -> None:
    """Each query head gets the keys of its own kv head.

    每个查询头使用与其对应的键值头的键。
    """
    heads = slice(case["first"], case["last"])
    what = Text("the heads whose keys are zero", "键为零的那些头")
    expect_parity(student, case, what=what, part=(slice(None), slice(-1, None), heads))


def _expect_scale_free(student: Student, case: Case, name: str) -> None:
    weight = Tensor.of(case.weights[name].array * np.float32(7))
    table = table_of(student, case)
    before = attention_of(student, case)(case["x"], 0, table)
    changed = attention_of(student, case, changed={name: weight})
    why = Text(
        f"{name} times 7 is normed away by the QK-norm.", f"{name} 乘以 7 会被 QK-norm 抵消。"
    )
    expect_same(changed(case["x"], 0, table), before, case, why, limit=1e-4)


@cases("attention_core")
def test_attention_q_norm(student: Student, case: Case) -> None:
    """The size of q does not matter, since q is normed per head.

    q 的大小无关紧要，因为 q 按头做了归一化。
    """
    _expect_scale_free(student, case, "wq.weight")


@cases("attention_core")
def test_attention_k_norm(student: Student, case: Case) -> None:
    """The size of k does not matter, since k is normed per head.

    k 的大小无关紧要，因为 k 按头做了归一化。
    """
    _expect_scale_free(student, case, "wk.weight")


@checks("""
    test_attention_norm_weights: attention_unrotated
        With a table of ones (no rotation), norms, scale and softmax give the right numbers.
        表的值全为 1（不旋转）时，归一化、缩放与 softmax 的数值正确。

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
    attention, table = attention_of(student, case), table_of(student, case)
    before, after = (
        attention(case["x"], start, table, mask=case["mask"]) for start in (0, case["start"])
    )
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
    attention, table = attention_of(student, case), table_of(student, case)
    wide = table_of(student, case, rows=slice(None, None, 2))  # row p is position 2p
    x, mask = case["x"], case["mask"]
    here, there = (attention(x, start, table, mask=mask) for start in (0, case["start"]))
    stretched = attention(x, 0, wide, mask=mask)
    expect_same(there, here, case, RELATIVE, limit=1e-4)
    far = Text("twice the distances turn q and k further.", "距离加倍后 q 与 k 转得更多。")
    expect_unlike(stretched, here, case, far)


@cases("attention_large_logits")
def test_attention_large_logits(student: Student, case: Case) -> None:
    """Large logits do not overflow the softmax.

    很大的 logits 不会使 softmax 溢出。
    """
    expect_parity(student, case, limit=Limit(1e-4, 1e-3))


@cases("attention_float16")
def test_attention_float16(student: Student, case: Case) -> None:
    """float16 with inputs of 300 neither crashes nor overflows, mask given or not.

    float16 且输入达 300 时，无论是否给定掩码，都既不崩溃也不溢出。
    """
    attention, table = attention_of(student, case), table_of(student, case)
    given, causal = (
        attention(case["x"], 0, table, mask=case["mask"]),
        attention(case["x"], 0, table),
    )
    for result in (given, causal):
        expect_dtype(result, "float16", case)
        expect_close(result, case["y"], case)


@cases("attention_given_mask")
def test_attention_pure(student: Student, case: Case) -> None:
    """It leaves its inputs alone, and the same call gives the same result.

    不修改输入，相同的调用得到相同的结果。
    """
    attention, table = attention_of(student, case), table_of(student, case)
    first = attention(case["x"], 0, table, mask=case["mask"], echo=True)
    second = attention(case["x"], 0, table, mask=case["mask"])
    value, args, kwargs = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    expect_unchanged(kwargs["mask"], case["mask"], case, Text("mask", "mask"))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@cases("attention_core")
def test_attention_batch(student: Student, case: Case) -> None:
    """A row of a batch gives the same result on its own.

    批次中的一行单独计算时结果相同。
    """
    attention, table = attention_of(student, case), table_of(student, case)
    row = case["x"].shape[0] - 1
    together = attention(case["x"], 0, table)
    alone = attention(Tensor.of(case["x"].array[row : row + 1]), 0, table)
    whole = expect_shape(together, case["y"].shape, case)
    why = Text("rows of a batch have nothing to do with each other.", "批次中的各行互不相关。")
    expect_same(alone, Tensor.of(whole.array[row : row + 1]), case, why, OUTPUT)

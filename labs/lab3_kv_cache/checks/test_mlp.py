"""Checks of ``mlp.py``: the width, the gated unit, the weights carried over, what a layer costs."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    config,
    expect_close,
    expect_dtype,
    expect_items,
    expect_keys,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_value,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Named, Result, Student
from autograder.wire.messages import Tensor

INPUT = Text("the input x", "输入 x")
COUNTS = ("projections", "attention", "mlp", "total")
NAMES = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}


@checks("""
    test_size_runs: sizes_plain
        It runs and rounds 8/3 of dim up to a multiple.
        能运行，并把 dim 的 8/3 向上取整到倍数。

    test_size_exact: sizes_exact
        A size that is a multiple after rounding down stays as it is; one more goes up.
        向下取整后已是倍数的大小保持不变；比倍数大 1 的要向上取整。

    test_size_multiplier: sizes_multiplied
        The multiplier is applied before rounding up.
        乘数在向上取整之前起作用。
    """)
def _expect_sizes(student: Student, case: Case) -> None:
    asked = [(one, student.call("mlp.feed_forward_size", *one[:3])) for one in case["sizes"]]
    for (dim, multiple_of, multiplier, want), got in asked:
        called = f"feed_forward_size({dim}, {multiple_of}, {multiplier})"
        expect_value(got, want, case, Text(called, called))


@cases("sizes_published")
def test_size_published(student: Student, case: Case) -> None:
    """The widths of published Llama models are right, and whole numbers to Python, too.

    已发布的 Llama 模型的宽度正确，并且在 Python 中也是整数。
    """
    _expect_sizes(student, case)
    dim, multiple_of, multiplier, _ = case["sizes"][0]
    asked = "mlp.feed_forward_size", dim, multiple_of, multiplier
    size, again = student.call(*asked), student.new(*asked)
    if student.call("builtins.isinstance", again, Named("builtins.float")).value:
        raise reject(size.value, Text("an int", "int"), case)  # nn.Linear takes no float


def _mlp(student: Student, case: Case, **changed: Tensor) -> Handle:
    weights = case.weights | {name.replace("__", "."): t for name, t in changed.items()}
    dtype = case.values.get("dtype", "float32")
    return student.new("mlp.FeedForward", case["dim"], case["width"], weights=weights, dtype=dtype)


@checks("""
    test_mlp_activation: mlp_curve
        The activation of the gate is SiLU.
        门的激活函数是 SiLU。

    test_mlp_parity: mlp_core
        The numbers equal those of Hugging Face.
        数值与 Hugging Face 一致。

    test_mlp_any_shape: mlp_flat
        [tokens, dim] works like [B, T, dim].
        [tokens, dim] 与 [B, T, dim] 同样可用。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_close(_mlp(student, case)(case["x"]), case["y"], case)


@cases("mlp_core")
def test_mlp_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    mlp = student.new("mlp.FeedForward", case["dim"], case["width"])
    expect_shape(mlp(case["x"]), case["x"].shape, case)


@cases("mlp_core")
def test_mlp_loads(student: Student, case: Case) -> None:
    """w1, w2 and w3 load by name, none missing and none left over.

    w1、w2、w3 按名称加载，不缺少也不多余。
    """
    expect_shape(_mlp(student, case)(case["x"]), case["x"].shape, case)


@cases("mlp_core")
def test_mlp_up_is_linear(student: Student, case: Case) -> None:
    """w3 has no activation: w3 times -3 gives the output times -3.

    w3 没有激活函数：w3 乘以 -3，输出也乘以 -3。
    """
    weight = case.weights["w3.weight"].array
    tripled = _mlp(student, case, w3__weight=Tensor.of(weight * -3))(case["x"])
    plain = _mlp(student, case)(case["x"])
    expect_shape(plain, case["y"].shape, case)
    whole = expect_shape(tripled, case["y"].shape, case)
    what = Text(
        "the output (divided by -3 where w3 was times -3)", "输出（w3 乘以 -3 的那次已除以 -3）"
    )
    why = Text(
        "w3 times -3 is the output times -3; the activation belongs to w1.",
        "w3 乘以 -3 时输出应乘以 -3；激活函数属于 w1。",
    )
    # As float64: integers that a student returns may have no room for the quotient.
    expect_same(Tensor.of(whole.array.astype(np.float64) / -3), plain, case, why, what)


@cases("mlp_bfloat16")
def test_mlp_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    result = _mlp(student, case)(case["x"])
    expect_dtype(result, "bfloat16", case)
    expect_close(result, case["y"], case)


@cases("mlp_core")
def test_mlp_pure(student: Student, case: Case) -> None:
    """It leaves its input alone, and the same call gives the same result.

    不修改输入，相同的调用得到相同的结果。
    """
    mlp = _mlp(student, case)
    first, second = mlp(case["x"], echo=True), mlp(case["x"])
    value, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


def _converted(student: Student, case: Case, *, echo: bool = False) -> Result:
    return student.call("mlp.convert_hf_mlp", case.group("in."), echo=echo)


@checks("""
    test_convert_names: converting_bare
        gate_proj is w1, down_proj is w2, up_proj is w3.
        gate_proj 对应 w1，down_proj 对应 w2，up_proj 对应 w3。

    test_convert_prefix: converting
        A prefix is kept.
        保留前缀。
    """)
def _expect_renamed(student: Student, case: Case) -> None:
    wanted = {f"{case['prefix']}{new}.weight": old for old, new in NAMES.items()}
    found = expect_keys(_converted(student, case), list(wanted), case)
    for new, old in wanted.items():
        source = case.group("in.")[f"{case['prefix']}{old}.weight"]
        expect_close(found[new], source, case, Text(new, new))


@cases("converting_bare")
def test_convert_runs(student: Student, case: Case) -> None:
    """It runs and gives w1.weight, w2.weight and w3.weight, and nothing else.

    能运行，得到 w1.weight、w2.weight 与 w3.weight，没有其他条目。
    """
    result = _converted(student, case)
    found = expect_keys(result, [f"{new}.weight" for new in NAMES.values()], case)
    if len(found) != len(NAMES):
        raise reject(result.value, Text("a dict of 3", "含 3 项的 dict"), case)


@cases("converting")
def test_convert_others(student: Student, case: Case) -> None:
    """All other entries stay as they are, whatever their names look like.

    其他条目无论名称多么相似都保持不变。
    """
    given = case.group("in.")
    three = {f"{case['prefix']}{old}.weight" for old in NAMES}
    others = [name for name in given if name not in three]
    found = expect_keys(_converted(student, case), others, case)
    for name in others:
        expect_close(found[name], given[name], case, Text(name, name))


@cases("converting")
def test_convert_pure(student: Student, case: Case) -> None:
    """It does not change the state dict that it is given.

    不修改传入的 state_dict。
    """
    given = case.group("in.")
    _, (after,), _ = expect_items(_converted(student, case, echo=True), 3, case)
    what = Text("the state dict", "state_dict")
    names = set(after) if isinstance(after, dict) else after
    expect_unchanged(names, set(given), case, what)
    for name, tensor in given.items():
        expect_unchanged(after[name], tensor, case, what)


def _of(name: str) -> Text:
    """Which of several models; the case's words say it where there is but one."""
    return Text(f" ({name})", f"{name}：") if name else Text("", "")


def _expect_flops(student: Student, case: Case, *keys: str) -> None:
    asked = [
        (model["name"], tokens, past, wanted, student.call("mlp.layer_flops", given, tokens, past))
        for model in case["models"]
        for given in [config(model["config"])]
        for tokens, past, wanted in model["layers"]
    ]
    for name, tokens, past, wanted, result in asked:
        counts, of = expect_keys(result, COUNTS, case), _of(name)
        for key in keys:
            what = Text(
                f'"{key}" of {tokens} new tokens after {past} others{of.en}',
                f"{of.zh}已有 {past} 个、新增 {tokens} 个 token 时，“{key}”",
            )
            expect_value(counts[key], wanted[key], case, what)


@cases("flops")
def test_flops_runs(student: Student, case: Case) -> None:
    """It runs and has every key.

    能运行，并包含所有的键。
    """
    _expect_flops(student, case)


@cases("flops", "flops_published")
def test_flops_weights(student: Student, case: Case) -> None:
    """Projections and MLP are counted for the new tokens.

    投影与 MLP 按新 token 计数。
    """
    _expect_flops(student, case, "projections", "mlp")


@cases("flops", "flops_published")
def test_flops_attention(student: Student, case: Case) -> None:
    """Every new token meets every key, those from the cache as well, in each query head.

    在每个查询头中，每个新 token 都与所有键计算，包括缓存中的键。
    """
    _expect_flops(student, case, "attention")


@cases("flops", "flops_published")
def test_flops_prefill(student: Student, case: Case) -> None:
    """All layers count, with the masked scores, and the head once.

    计入所有层（被屏蔽的分数也算），输出头只计一次。
    """
    asked = [
        (model["name"], tokens, wanted, student.call("mlp.prefill_flops", given, tokens))
        for model in case["models"]
        for given in [config(model["config"])]
        for tokens, wanted in model["prompts"]
    ]
    for name, tokens, wanted, result in asked:
        of = _of(name)
        what = Text(f"a prompt of {tokens} tokens{of.en}", f"{of.zh}{tokens} 个 token 的提示")
        expect_value(result, wanted, case, what)

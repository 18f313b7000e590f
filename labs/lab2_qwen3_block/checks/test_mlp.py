"""Checks of ``mlp.py``: the gated unit, and what a model costs."""

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
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Student
from autograder.wire.messages import Tensor

INPUT = Text("x", "x")
KEYS = ("embedding", "attention", "mlp", "norm", "lm_head", "total")


def _mlp(student: Student, case: Case, **changed: Tensor) -> Handle:
    weights = case.weights | {name.replace("__", "."): t for name, t in changed.items()}
    dtype = case.values.get("dtype", "float32")
    return student.new("mlp.Qwen3MLP", config(case.config), weights=weights, dtype=dtype)


@checks("""
    test_mlp_any_shape: mlp_flat
        [tokens, hidden] works like [B, T, hidden].
        [tokens, hidden] 与 [B, T, hidden] 同样可用。

    test_mlp_parity: mlp_core
        The numbers equal those of Hugging Face.
        数值与 Hugging Face 一致。

    test_mlp_checkpoint: mlp_checkpoint
        The weights of the tiny Qwen3 checkpoint give the numbers of Hugging Face.
        使用微型 Qwen3 检查点的权重，数值与 Hugging Face 一致。

    test_mlp_activation: mlp_curve
        The activation of the gate is SiLU.
        门的激活函数是 SiLU。

    test_mlp_outlier: mlp_outlier
        Ordinary tokens are right next to a huge one.
        有一个极大的 token 时，其余 token 仍然正确。
    """)
def _expect_parity(student: Student, case: Case) -> None:
    expect_close(_mlp(student, case)(case["x"]), case["y"], case)


@cases("mlp_core")
def test_mlp_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    mlp = student.new("mlp.Qwen3MLP", config(case.config))
    expect_shape(mlp(case["x"]), case["x"].shape, case)


@cases("mlp_core")
def test_mlp_loads(student: Student, case: Case) -> None:
    """The weights of Hugging Face load by name, none missing and none left over.

    Hugging Face 的权重能按名称加载，不多也不少。
    """
    expect_shape(_mlp(student, case)(case["x"]), case["x"].shape, case)


@cases("mlp_core")
def test_mlp_up_is_linear(student: Student, case: Case) -> None:
    """up_proj has no activation: up_proj times -3 gives the output times -3.

    up_proj 没有激活函数：up_proj 乘以 -3，输出也乘以 -3。
    """
    weight = case.weights["up_proj.weight"].array
    tripled = _mlp(student, case, up_proj__weight=Tensor.of(weight * -3))(case["x"])
    plain = _mlp(student, case)(case["x"])
    whole = expect_shape(plain, case["y"].shape, case)
    why = Text("an activation belongs to gate_proj alone.", "激活函数只属于 gate_proj。")
    what = Text(
        "the output with up_proj times -3, beside -3 times the output",
        "up_proj 乘以 -3 后的输出，与原输出的 -3 倍",
    )
    # As float64: integers that a student returns may have no room for the product.
    expect_same(tripled, Tensor.of(whole.array.astype(np.float64) * -3), case, why, what)


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
    first = student.call(mlp, case["x"], echo=True)
    second = mlp(case["x"])
    value, args, _ = expect_items(first, 3, case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@cases("mlp_real")
def test_mlp_real_weights(student: Student, case: Case) -> None:
    """Real Qwen3 weights give the numbers of Hugging Face.

    使用真实的 Qwen3 权重，数值与 Hugging Face 一致。
    """
    mlp = student.new("mlp.Qwen3MLP", config(case.config), mapped=case["mapped"])
    expect_close(mlp(case["x"]), case["y"], case)


# ---------------------------------------------------------------- accounting


def _expect_counts(student: Student, case: Case, keys: tuple[str, ...]) -> None:
    models = case["models"]
    results = [student.call("mlp.count_parameters", config(m["config"])) for m in models]
    for model, result in zip(models, results, strict=True):
        counts = expect_keys(result, KEYS, case)
        for key in keys:
            what = Text(f'"{key}" ({model["name"]})', f"“{key}”（{model['name']}）")
            expect_value(counts[key], model["counts"][key], case, what)


@cases("accounting")
def test_count_runs(student: Student, case: Case) -> None:
    """It runs and has every key.

    能运行，并包含所有的键。
    """
    _expect_counts(student, case, ())


@cases("accounting", "accounting_twin")
def test_count_matrices(student: Student, case: Case) -> None:
    """Embedding, attention and MLP are counted correctly.

    词嵌入、注意力与 MLP 的参数量正确。
    """
    _expect_counts(student, case, ("embedding", "attention", "mlp"))


@cases("accounting", "accounting_twin")
def test_count_norms(student: Student, case: Case) -> None:
    """All norms are counted: q_norm and k_norm once per layer, the last norm once in all.

    计入所有归一化：q_norm 与 k_norm 每层各一次，末尾的归一化总共一次。
    """
    _expect_counts(student, case, ("norm",))


@cases("accounting_twin")
def test_count_head(student: Student, case: Case) -> None:
    """A tied head counts as nothing, an untied one in full.

    共享的输出头计 0，不共享则全部计入。
    """
    _expect_counts(student, case, ("lm_head",))


@cases("published")
def test_count_published(student: Student, case: Case) -> None:
    """The totals of all published dense models are right.

    所有已发布稠密模型的总参数量正确。
    """
    _expect_counts(student, case, ("total",))


@checks(
    """
    test_weight_bytes_runs: accounting
        It runs and gives the bytes of a small model.
        能运行，给出小模型的字节数。

    test_weight_bytes_published: accounting_twin published
        The bytes of all published dense models are right.
        所有已发布稠密模型的字节数正确。
    """,
    cache=False,
)
@checks(
    """
    test_kv_cache_runs: accounting
        It runs and gives the bytes of a small cache.
        能运行，给出小缓存的字节数。

    test_kv_cache_published: accounting_twin published
        The cache of all published dense models is right.
        所有已发布稠密模型的缓存大小正确。
    """,
    cache=True,
)
def _expect_bytes(student: Student, case: Case, *, cache: bool) -> None:
    expected = []
    for model in case["models"]:
        given = config(model["config"])
        for dtype, size in model["cache" if cache else "weights"].items():
            if cache:
                sizes = {"tokens": model["tokens"], "batch": model["batch"]}
                result = student.call("mlp.kv_cache_bytes", given, dtype=dtype, **sizes)
            else:
                result = student.call("mlp.weight_bytes", given, dtype)
            name, tokens = model["name"], f"{model['batch']} x {model['tokens']} tokens"
            what = (
                Text(
                    f"the cache in {dtype} ({name}, {tokens})",
                    f"{dtype} 的缓存（{name}，{tokens}）",
                )
                if cache
                else Text(
                    f'"total" of count_parameters times the bytes of {dtype} ({name})',
                    f"count_parameters 的 “total” 乘以 {dtype} 的字节数（{name}）",
                )
            )
            expected.append((result, size, what))
    for result, size, what in expected:
        expect_value(result, size, case, what)

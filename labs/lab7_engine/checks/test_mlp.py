"""Checks of the linear layers on codes, of the MLP made of them, and of what they save.

Bytes are counted on 768 rows of 192 in blocks of 16. Right styles take 0.14 to 0.73 of the limit;
the whole weight wide takes 1.6 of it in bfloat16 and 2.7 in float32. FLOPs: right ones take 1 to
4.2 times the ideal (the latter scales rows by a product), all rows for every block 48 times.
"""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.costs import expect_bytes, expect_flops, measured
from autograder.checks.expect import (
    Limit,
    Named,
    cases,
    expect_close,
    expect_dtype,
    expect_error,
    expect_items,
    expect_most,
    expect_shape,
    expect_unchanged,
    expect_value,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import GivenConfig, Handle, Result, Student
from autograder.wire.messages import Tensor

EIGHT, FOUR = "mlp.QuantizedLinear", "mlp.GroupQuantizedLinear"
INPUT = Text("x", "x")
BUFFERS = {EIGHT: ("weight", "scales"), FOUR: ("packed", "scales", "zeros")}
# bfloat16 rounds an answer by 0.2 % at most; weights rounded to it are off by 5 % here.
ROUNDED = Limit(6e-3, 2e-2)
MOST_FLOPS = 8


def _made(
    student: Student,
    case: Case,
    path: str,
    *,
    block: int = 0,
    weights: dict[str, Tensor] | None = None,
) -> Handle:
    """A layer with the case's buffers, in blocks of so many rows (0: as the case has it)."""
    group = (case["group"],) if path == FOUR else ()
    sizes = *case["sizes"], *group, block or case["block"]
    return student.new(path, *sizes, weights=weights or case.weights)


def _from_float(student: Student, path: str, *args: object) -> Handle:
    make = student.new("builtins.getattr", Named(path), "from_float")
    return student.new("operator.call", make, *args)


@checks(
    """
    test_linear_runs: linear
        Its buffers load, and it gives [tokens, out].
        缓冲区能加载，输出形状为 [tokens, out]。
    """,
    EIGHT,
)
@checks(
    """
    test_grouped_runs: grouped
        Its buffers load, and it gives [tokens, out].
        缓冲区能加载，输出形状为 [tokens, out]。
    """,
    FOUR,
)
def _expect_runs(student: Student, case: Case, path: str) -> None:
    expect_shape(_made(student, case, path)(case["x"]), case["y"].shape, case)


@checks(
    """
    test_linear_parity: linear
        The numbers are those of x times codes times scales, however many rows a block has.
        无论每块多少行，数值都等于 x 乘以编码再乘以 scale。

    test_linear_lead: linear_lead
        Any shape [..., in] works.
        形状 [..., in] 任意。
    """,
    EIGHT,
)
@checks(
    """
    test_grouped_parity: grouped grouped_lead
        The numbers are those of x times the weight that the bytes stand for, in any shape.
        数值等于 x 乘以这些字节所代表的权重；x 的形状任意。
    """,
    FOUR,
)
def _expect_parity(student: Student, case: Case, path: str) -> None:
    out = case["sizes"][1]
    made = [_made(student, case, path, block=rows)(case["x"]) for rows in (0, 1, out + 3)]
    for result in made:
        expect_close(result, case["y"], case)


@cases("linear_float16", "linear_bfloat16")
def test_linear_half(student: Student, case: Case) -> None:
    """The dtype of x comes back; in between there is float32, and nothing overflows.

    返回 x 的数据类型；中间用 float32，不会溢出。
    """
    result = _made(student, case, EIGHT)(case["x"])
    expect_close(expect_dtype(result, case["dtype"], case), case["y"], case, limit=ROUNDED)


@cases("grouped_bfloat16")
def test_grouped_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out; in between float32.

    输入 bfloat16，输出 bfloat16，中间用 float32。
    """
    result = _made(student, case, FOUR)(case["x"])
    expect_close(expect_dtype(result, "bfloat16", case), case["y"], case, limit=ROUNDED)


@checks(
    """
    test_linear_from_float: linear_whole
        A weight that is whole steps comes back exactly.
        恰为整数步的权重能精确还原。
    """,
    EIGHT,
)
@checks(
    """
    test_grouped_from_float: grouped_whole
        A weight that is whole steps comes back exactly.
        恰为整数步的权重能精确还原。
    """,
    FOUR,
)
def _expect_from_float(student: Student, case: Case, path: str) -> None:
    group = (case["group"],) if path == FOUR else ()
    linear = _from_float(student, path, case["float"], *group, case["block"])
    result = linear(case["x"])
    held = {name: student.get(linear, name) for name in BUFFERS[path]}
    expect_close(result, case["y"], case)
    for name, got in held.items():
        want = case.weights[name]
        expect_close(expect_dtype(got, want.dtype, case, Text(name, name)), want, case,
                     Text(name, name))  # fmt: skip


def _large(student: Student, case: Case, path: str) -> tuple[Result, int]:
    """A measured call with the case's rows repeated, and the bytes of its buffers."""
    times = case["sizes"][1] // len(case.weights["scales"].array)
    weights = {name: Tensor.of(np.concatenate([part.array] * times))
               for name, part in case.weights.items()}  # fmt: skip
    linear = _made(student, case, path, weights=weights)
    size = sum(part.array.nbytes for part in weights.values())
    return student.call(linear, case["x"], measure=0), size


def _needed(case: Case) -> int:
    width, out = case["sizes"]
    return 2 * int(case["x"].shape[0]) * int(width) * int(out)


@checks(
    """
    test_linear_bytes: linear_cost
        At no time is more of the weight wide than a block of rows.
        任何时刻反量化后的权重都不超过 block_rows 行。
    """,
    EIGHT,
    4,
)
@checks(
    """
    test_grouped_bytes: grouped_cost
        At no time is more of the weight wide than a block of rows.
        任何时刻反量化后的权重都不超过 block_rows 行。
    """,
    FOUR,
    6,
)
def _expect_few_bytes(student: Student, case: Case, path: str, blocks: int) -> None:
    (width, out), tokens = case["sizes"], case["x"].shape[0]
    result, size = _large(student, case, path)
    expect_shape(measured(result, case)[0], (tokens, out), case)
    most = size + 4 * 4 * tokens * (width + out) + blocks * 4 * width * case["block"]
    why = Text(
        "Make block_rows rows of the weight wide, use them, and let go of them.",
        "请每次只反量化 block_rows 行权重，用完就释放。",
    )
    expect_bytes(result, case, most=most, least=_needed(case), why=why)


@checks(
    """
    test_linear_flops: linear_cost
        A block computes its own rows only.
        一块只计算自己的行。
    """,
    EIGHT,
)
@checks(
    """
    test_grouped_flops: grouped_cost
        A block computes its own rows only.
        一块只计算自己的行。
    """,
    FOUR,
)
def _expect_few_flops(student: Student, case: Case, path: str) -> None:
    result, _ = _large(student, case, path)
    why = Text("every row is needed once.", "每一行只需计算一次。")
    needed = _needed(case)
    expect_flops(result, case, needed=needed, most=MOST_FLOPS, least=needed, why=why)


@checks(
    """
    test_linear_holds: linear_whole
        It keeps codes and scales, and no wide weight.
        只保存编码与 scale，不保存反量化后的权重。
    """,
    EIGHT,
)
@checks(
    """
    test_grouped_holds: grouped_whole
        It keeps bytes, scales and zero points, and no wide weight.
        只保存字节、scale 与零点，不保存反量化后的权重。
    """,
    FOUR,
)
def _expect_small(student: Student, case: Case, path: str) -> None:
    group = (case["group"],) if path == FOUR else ()
    linear = _from_float(student, path, case["float"], *group, case["block"])
    held = student.call(linear, case["x"], held=linear)
    _, count = expect_items(held, 2, case)
    size = sum(part.array.nbytes for part in case.weights.values())
    why = Text("the wide weight is no longer needed.", "不再需要反量化后的权重。")
    what = Text("bytes that the layer keeps", "这一层保存的字节数")
    expect_most(count, size + size // 4, case, what, why)


@checks(
    """
    test_linear_pure: linear
        It leaves x alone.
        不修改 x。
    """,
    EIGHT,
)
def _expect_pure(student: Student, case: Case, path: str) -> None:
    result = _made(student, case, path)(case["x"], echo=True)
    expect_unchanged(expect_items(result, 3, case)[1][0], case["x"], case, INPUT)


def _mlp(student: Student, case: Case) -> Handle:
    sizes = *case["sizes"], case["group"], case["block"]
    return student.new("mlp.Qwen3MLP", *sizes, weights=case.weights)


@cases("mlp_eight", "mlp_four")
def test_mlp_runs(student: Student, case: Case) -> None:
    """Its buffers load by their names, in eight and in four bits.

    八位与四位的缓冲区都能按名称加载。
    """
    expect_shape(_mlp(student, case)(case["x"]), case["y"].shape, case)


@cases("mlp_eight", "mlp_four")
def test_mlp_parity(student: Student, case: Case) -> None:
    """The numbers are those of Hugging Face with the weights that the codes stand for.

    数值与 Hugging Face 在编码所代表的权重上的结果一致。
    """
    expect_close(_mlp(student, case)(case["x"]), case["y"], case)


@cases("mlp_eight_whole", "mlp_four_whole")
def test_mlp_from_float(student: Student, case: Case) -> None:
    """It is made from float weights under the names of Hugging Face.

    能由 Hugging Face 命名的浮点权重构造。
    """
    weights = case.group("float.")
    made = _from_float(student, "mlp.Qwen3MLP", weights, case["group"], case["block"])
    expect_close(made(case["x"]), case["y"], case)


@cases("mlp_bfloat16")
def test_mlp_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    result = _mlp(student, case)(case["x"])
    expect_close(expect_dtype(result, "bfloat16", case), case["y"], case)


def _bytes(config: dict[str, int], bits: int, group: int) -> int:
    """Bytes of a model's linear layers, matrix by matrix."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    wide = config["num_attention_heads"] * config["head_dim"]
    narrow = config["num_key_value_heads"] * config["head_dim"]
    numbers = hidden * (2 * wide + 2 * narrow + 3 * inner)
    rows = wide + 2 * narrow + hidden + 2 * inner + hidden
    size = {16: 2 * numbers, 8: numbers + 4 * rows, 4: numbers // 2 + 5 * (numbers // group)}
    return config["num_hidden_layers"] * size[bits]


@checks(
    """
    test_bytes_runs: odd_model
        In 16 bits, two bytes for every number of the seven matrices.
        16 位时，七个矩阵的每个数占两个字节。
    """,
    16,
)
@checks(
    """
    test_bytes_eight: odd_model published
        In eight bits, a byte for every number and four for every row.
        八位时，每个数占一个字节，每行另占四个。
    """,
    8,
)
@checks(
    """
    test_bytes_four: odd_model published
        In four bits, half a byte for every number and five bytes for every group.
        四位时，每个数占半个字节，每组另占五个。
    """,
    4,
)
def _expect_weight_bytes(student: Student, case: Case, bits: int) -> None:
    group = case["size"]
    given = (group,) if bits == 4 else ()
    made = [
        student.call("mlp.weight_bytes", GivenConfig(config), bits, *given)
        for config in case["configs"]
    ]
    for name, config, got in zip(case["names"], case["configs"], made, strict=True):
        what = Text(f"weight_bytes of {name}, {bits} bits", f"{name} 的 {bits} 位 weight_bytes")
        expect_value(got, _bytes(config, bits, group), case, what)


@cases("odd_model")
def test_bytes_other(student: Student, case: Case) -> None:
    """Other bits are a ValueError.

    其他 bits 抛出 ValueError。
    """
    result = student.call("mlp.weight_bytes", GivenConfig(case["configs"][0]), 5, case["size"])
    why = Text("nothing here has 5 bits.", "这里没有 5 位的格式。")
    expect_error(result, "ValueError", "bits", case, why)

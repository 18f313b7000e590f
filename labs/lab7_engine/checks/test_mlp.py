"""Checks of the linear layers on codes, of the MLP made of them, and of what they save.

Bytes are counted on 768 rows of 192 in blocks of 16. Right styles take 0.14 to 0.73 of the limit;
the whole weight wide takes 1.6 of it in bfloat16 and 2.7 in float32. That block_rows is passed on
is seen on 384 rows of 64 in blocks of 8: right styles take 0.13 to 0.82 of the limit, 64 rows at a
time 1.85 or more. FLOPs: right ones take 1 to 4.2 times the ideal (the latter scales rows by a
product), all rows for every block 48 times.
"""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.costs import expect_bytes, expect_flops, measured
from autograder.checks.expect import (
    OUTPUT,
    CheckFailed,
    Limit,
    Named,
    cases,
    expect_close,
    expect_dtype,
    expect_error,
    expect_items,
    expect_keys,
    expect_most,
    expect_shape,
    expect_unchanged,
    expect_value,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import GivenConfig, Handle, Result, Student
from autograder.wire.messages import Tensor

EIGHT, FOUR = "mlp.QuantizedLinear", "mlp.GroupQuantizedLinear"
INPUT = Text("x", "x")
TURNED = Text("the output for an x that is a transposed view", "x 是转置视图时的输出")
STATE = Text("the state dict", "state dict")
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
    sizes = case["block"], 1, out + 3
    made = [_made(student, case, path, block=rows)(case["x"]) for rows in sizes]
    for result, rows in zip(made, sizes, strict=True):
        expect_close(result, case["y"], case, _but_the_last(result, case, rows))
    if len(case["x"].shape) > 2:
        _expect_turned(student, case, path)


def _but_the_last(result: Result, case: Case, rows: int) -> Text:
    """The output; where only the last rows of the weight can be wrong, with what is right."""
    want, got = case["y"].array, result.value
    full = want.shape[-1] // rows * rows
    if not 0 < full < want.shape[-1] or not isinstance(got, Tensor) or got.shape != want.shape:
        return OUTPUT
    if not np.allclose(got.array[..., :full], want[..., :full], rtol=1e-3, atol=1e-3):
        return OUTPUT
    left = want.shape[-1] - full
    return Text(
        f"the output, right but for what the last {left} rows of the weight make,",
        f"输出（只有权重最后 {left} 行所产生的列不对）",
    )


def _expect_turned(student: Student, case: Case, path: str) -> None:
    """The same numbers for an x that is a view, whose rows lie in another order in memory."""
    other = Tensor.of(case["x"].array.swapaxes(0, 1).copy())
    view = student.new("torch.transpose", other, 0, 1)
    expect_close(_made(student, case, path)(view), case["y"], case, TURNED)


@cases("linear_lead")
def test_linear_lead(student: Student, case: Case) -> None:
    """Any shape [..., in] works, and x stays as it was.

    形状 [..., in] 任意，且不修改 x。
    """
    result = _made(student, case, EIGHT)(case["x"], echo=True)
    value, args, _ = expect_items(result, 3, case)
    expect_close(value, case["y"], case)
    expect_unchanged(args[0], case["x"], case, INPUT)
    _expect_turned(student, case, EIGHT)


@cases("linear_float16", "linear_bfloat16")
def test_linear_half(student: Student, case: Case) -> None:
    """The dtype of x comes back; in between there is float32, and nothing overflows.

    返回 x 的数据类型；中间用 float32，不会溢出。
    """
    result = _made(student, case, EIGHT)(case["x"])
    expect_close(expect_dtype(result, case["dtype"], case), case["y"], case, limit=ROUNDED)


@cases("grouped_bfloat16")
def test_grouped_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out; in between float32. What is loaded keeps its dtypes.

    输入 bfloat16，输出 bfloat16，中间用 float32。加载的缓冲区保持各自的数据类型。
    """
    linear = _made(student, case, FOUR)
    result, buffers = linear(case["x"]), [(n, student.get(linear, n)) for n in BUFFERS[FOUR]]
    for name, got in buffers:
        expect_dtype(got, case.weights[name].dtype, case, Text(name, name))
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
        Whole steps come back exactly, no wide weight is kept, group_size divides the columns.
        恰为整数步的权重能精确还原；不保存反量化后的权重；group_size 必须整除列数。
    """,
    FOUR,
)
def _expect_from_float(student: Student, case: Case, path: str) -> None:
    group = (case["group"],) if path == FOUR else ()
    linear = _from_float(student, path, case["float"], *group, case["block"])
    # Buffers first: a layer that puts a wide weight in their place when it is called has made
    # the right ones, and is told by what it keeps.
    state = student.new("operator.call", student.new("operator.methodcaller", "state_dict"), linear)
    found, result = student.call("builtins.dict", state), linear(case["x"])
    scales = student.new("builtins.getattr", linear, "scales")
    learned = student.get(scales, "requires_grad")
    kept = student.call(linear, case["x"], held=linear) if path == FOUR else None
    buffers = expect_keys(found, BUFFERS[path], case, STATE)
    for name in BUFFERS[path]:
        want = case.weights[name]
        expect_close(expect_dtype(buffers[name], want.dtype, case, Text(name, name)), want, case,
                     Text(name, name))  # fmt: skip
    expect_close(result, case["y"], case)
    if learned.value is not False:
        frozen = Text("False: nobody learns them", "False：它们不参与学习")
        raise reject(
            learned, frozen, case, Text("requires_grad of scales", "scales 的 requires_grad")
        )
    if path == FOUR:
        why = Text("4 does not divide 10 columns.", "4 不能整除 10 列。")
        expect_error(student.call(FOUR, 10, 3, 4), "ValueError", "group_size", case, why)
    if kept is not None:
        _expect_small(kept, case)


def _enlarged(part: Tensor, rows: int, columns: int) -> Tensor:
    """A part of a case, repeated."""
    return Tensor.of(np.tile(part.array, (rows, columns)[: part.array.ndim]))


def _times(case: Case, weight: Tensor, width: int, out: int) -> tuple[int, int]:
    """How often a small weight, or the codes of one, is repeated along rows and columns."""
    rows, columns = weight.shape
    return out // rows, width // (columns * (2 if weight.dtype == "uint8" else 1))


def _large(student: Student, case: Case, path: str) -> tuple[Result, int]:
    """A measured call with the case's weight repeated, and the bytes of its buffers."""
    times = _times(case, case.weights[BUFFERS[path][0]], *case["sizes"])
    weights = {name: _enlarged(part, *times) for name, part in case.weights.items()}
    linear = _made(student, case, path, weights=weights)
    size = sum(part.array.nbytes for part in weights.values())
    return student.call(linear, case["x"], measure=0), size


def _needed(case: Case) -> int:
    width, out = case["sizes"]
    return 2 * int(case["x"].shape[0]) * int(width) * int(out)


def _expect_block_bytes(
    result: Result, case: Case, *, size: int, most: int, least: int, wide: int, why: Text
) -> None:
    """Few bytes; and where they are too many, whether that is all of the weight or a part."""
    try:
        expect_bytes(result, case, most=most, least=least, why=why)
    except CheckFailed:
        whole = measured(result, case)[1].peak > size + 9 * wide // 10
        result.verdict = "holds it all" if whole else "holds too many rows"
        raise


LET_GO = Text(
    "Make block_rows rows of the weight wide, use them, and let go of them.",
    "请每次只反量化 block_rows 行权重，用完就释放。",
)


def _passed_on(case: Case) -> Text:
    block = case["block"]
    return Text(
        f"from_float was given block_rows {block}: what it makes has to work with that.",
        f"from_float 收到的 block_rows 是 {block}：它构造的层也要按此处理。",
    )


@checks(
    """
    test_linear_bytes: linear_cost linear_rows
        At no time is more of the weight wide than a block of rows.
        任何时刻反量化后的权重都不超过 block_rows 行。
    """,
    EIGHT,
    4,
)
@checks(
    """
    test_grouped_bytes: grouped_cost grouped_rows
        At no time is more of the weight wide than a block, and a block computes its own rows only.
        任何时刻反量化后的权重都不超过 block_rows 行，且一块只计算自己的行。
    """,
    FOUR,
    6,
)
def _expect_few_bytes(student: Student, case: Case, path: str, blocks: int) -> None:
    (width, out), tokens = case["sizes"], case["x"].shape[0]
    made, size = _large(student, case, path)
    results = [(made, LET_GO)]
    if "float" in case.tensors:
        group = (case["group"],) if path == FOUR else ()
        whole = _enlarged(case["float"], *_times(case, case["float"], width, out))
        linear = _from_float(student, path, whole, *group, case["block"])
        results.append((student.call(linear, case["x"], measure=0), _passed_on(case)))
    for result, _ in results:
        expect_shape(measured(result, case)[0], (tokens, out), case)
    most = size + 4 * 4 * tokens * (width + out) + blocks * 4 * width * case["block"]
    for result, why in results:
        _expect_block_bytes(result, case, size=size, most=most, least=_needed(case),
                            wide=4 * width * out, why=why)  # fmt: skip
    if path == FOUR:
        _expect_few_flops(made, case)


@cases("linear_cost")
def test_linear_flops(student: Student, case: Case) -> None:
    """A block computes its own rows only.

    一块只计算自己的行。
    """
    _expect_few_flops(_large(student, case, EIGHT)[0], case)


def _expect_few_flops(result: Result, case: Case) -> None:
    why = Text("every row is needed once.", "每一行只需计算一次。")
    needed = _needed(case)
    expect_flops(result, case, needed=needed, most=MOST_FLOPS, least=needed, why=why)


@cases("linear_whole")
def test_linear_holds(student: Student, case: Case) -> None:
    """It keeps codes and scales, and no wide weight.

    只保存编码与 scale，不保存反量化后的权重。
    """
    linear = _from_float(student, EIGHT, case["float"], case["block"])
    _expect_small(student.call(linear, case["x"], held=linear), case)


def _expect_small(held: Result, case: Case) -> None:
    _, count = expect_items(held, 2, case)
    size = sum(part.array.nbytes for part in case.weights.values())
    why = Text(
        "it needs its buffers, and no other form of the weight.",
        "只需保留缓冲区，不保存权重的其他形式。",
    )
    what = Text("bytes that the layer keeps", "这一层保存的字节数")
    expect_most(count, size + size // 4, case, what, why)


def _mlp(student: Student, case: Case) -> Handle:
    sizes = *case["sizes"], case["group"], case["block"]
    return student.new("mlp.Qwen3MLP", *sizes, weights=case.weights)


@cases("mlp_eight", "mlp_four")
def test_mlp_runs(student: Student, case: Case) -> None:
    """Its buffers load by their names, in eight and in four bits.

    八位与四位的缓冲区都能按名称加载。
    """
    expect_shape(_mlp(student, case)(case["x"]), case["y"].shape, case)


@cases("mlp_eight", "mlp_four", "mlp_bfloat16")
def test_mlp_parity(student: Student, case: Case) -> None:
    """The numbers are those of Hugging Face with the weights of the codes, in the dtype of x.

    数值与 Hugging Face 在编码所代表的权重上的结果一致，数据类型与 x 相同。
    """
    result = expect_dtype(_mlp(student, case)(case["x"]), case["x"].dtype, case)
    expect_close(result, case["y"], case)


@cases("mlp_eight_whole", "mlp_four_whole")
def test_mlp_from_float(student: Student, case: Case) -> None:
    """It is made from float weights under the names of Hugging Face; others change nothing in it.

    能由 Hugging Face 命名的浮点权重构造；之后构造的其他 MLP 不影响它。
    """
    weights = case.group("float.")
    others = weights | {"gate_proj.weight": weights["up_proj.weight"]}
    sizes = case["group"], case["block"]
    made = _from_float(student, "mlp.Qwen3MLP", weights, *sizes)
    _from_float(student, "mlp.Qwen3MLP", others, *sizes)
    expect_close(made(case["x"]), case["y"], case)


@cases("mlp_rows_eight", "mlp_rows_four")
def test_mlp_bytes(student: Student, case: Case) -> None:
    """Its layers make block_rows rows wide at a time, whichever way the MLP was made.

    无论以哪种方式构造，它的各层每次都只反量化 block_rows 行。
    """
    (hidden, inner), block, tokens = case["sizes"], case["block"], case["x"].shape[0]
    shapes = {"gate_proj": (hidden, inner), "up_proj": (hidden, inner),
              "down_proj": (inner, hidden)}  # fmt: skip
    weights: dict[str, Tensor] = {}
    for name, (width, out) in shapes.items():
        first, *_ = BUFFERS[FOUR if case["group"] else EIGHT]
        times = _times(case, case.weights[f"{name}.{first}"], width, out)
        weights |= {key: _enlarged(part, *times) for key, part in case.weights.items()
                    if key.startswith(name)}  # fmt: skip
    whole = {
        key: _enlarged(part, *_times(case, part, *shapes[key.split(".")[0]]))
        for key, part in case.group("float.").items()
    }
    sizes = *case["sizes"], case["group"], block
    made = student.new("mlp.Qwen3MLP", *sizes, weights=weights)
    converted = _from_float(student, "mlp.Qwen3MLP", whole, case["group"], block)
    results = [student.call(mlp, case["x"], measure=0) for mlp in (made, converted)]
    for result in results:
        expect_shape(measured(result, case)[0], case["x"].shape, case)
    size = sum(part.array.nbytes for part in weights.values())
    blocks = (6 if case["group"] else 4) * 4 * max(hidden, inner) * block
    most = size + 4 * 4 * tokens * (hidden + 3 * inner) + blocks
    for result, why in zip(results, (LET_GO, _passed_on(case)), strict=True):
        expect_bytes(result, case, most=most, least=6 * tokens * hidden * inner, why=why)


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
        if len(made) == 1:  # the case says which
            what = Text(f"weight_bytes with {bits} bits", f"bits={bits} 时 weight_bytes 的结果")
        expect_value(got, _bytes(config, bits, group), case, what)


@cases("odd_model")
def test_bytes_other(student: Student, case: Case) -> None:
    """Other bits are a ValueError.

    其他 bits 抛出 ValueError。
    """
    result = student.call("mlp.weight_bytes", GivenConfig(case["configs"][0]), 5, case["size"])
    why = Text("nothing here has 5 bits.", "这里没有 5 位的格式。")
    expect_error(result, "ValueError", "bits", case, why)

"""Checks of ``attention.py``. The families are blind to each other where that is possible."""

from __future__ import annotations

import numpy as np

from autograder.course.records import Text
from autograder.harness.checks import (
    OUTPUT,
    Case,
    Handle,
    Limit,
    Result,
    Student,
    Tensor,
    cases,
    config,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unlike,
)

COS, SIN = Text("cos", "cos"), Text("sin", "sin")
Q, K = Text("the rotated q", "旋转后的 q"), Text("the rotated k", "旋转后的 k")
SCORES = Text("q' k'^T after the rotation", "旋转后的 q' k'^T")
NORMS = Text("the length of the rotated vectors", "旋转后向量的长度")
INPUT = Text("the input", "输入")
LAST_TOKEN = (slice(None), -1)
ARANGE = Text("position_ids=None means 0 … T-1.", "position_ids=None 表示 0 … T-1。")
RELATIVE = Text(
    "a rotation makes scores depend on the distance of two positions only.",
    "旋转使分数只取决于两个位置之间的距离。",
)


# ---------------------------------------------------------------- rotate_half


@cases("rotate_half")
def test_rotate_half_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shape.

    能运行，并保持形状不变。
    """
    expect_shape(student.call("attention.rotate_half", case["x"]), case["x"].shape, case)


@cases("rotate_half")
def test_rotate_half_values(student: Student, case: Case) -> None:
    """(x1, x2) becomes (-x2, x1), half by half.

    (x1, x2) 变为 (-x2, x1)，按前后两半计算。
    """
    expect_close(student.call("attention.rotate_half", case["x"]), case["y"], case)


@cases("rotate_half")
def test_rotate_half_dtype(student: Student, case: Case) -> None:
    """It keeps the dtype and leaves its input alone.

    保持数据类型，且不修改输入。
    """
    x = Tensor.of(case["x"].array.astype(np.float16))
    result = student.call("attention.rotate_half", x, echo=True)
    value, args, _ = expect_items(result, 3, case)
    expect_dtype(value, "float16", case)
    expect_close(args[0], x, case, INPUT)


# ---------------------------------------------------------------- RotaryEmbedding


def _tables(student: Student, case: Case) -> tuple[object, object]:
    rotary = student.new("attention.RotaryEmbedding", config(case.config))
    cos, sin = expect_items(rotary(case["positions"]), 2, case)
    return cos, sin


def _expect_tables(student: Student, case: Case, limit: Limit | None = None) -> None:
    cos, sin = _tables(student, case)
    expect_close(cos, case["cos"], case, COS, limit=limit)
    expect_close(sin, case["sin"], case, SIN, limit=limit)


@cases("tables")
def test_rotary_runs(student: Student, case: Case) -> None:
    """It runs and returns cos and sin of shape [T, head_dim].

    能运行，返回形状为 [T, head_dim] 的 cos 和 sin。
    """
    cos, sin = _tables(student, case)
    expect_shape(cos, case["cos"].shape, case, COS)
    expect_shape(sin, case["sin"].shape, case, SIN)


@cases("tables")
def test_rotary_dtype(student: Student, case: Case) -> None:
    """The tables are float32.

    表的数据类型为 float32。
    """
    cos, sin = _tables(student, case)
    expect_dtype(cos, "float32", case, COS)
    expect_dtype(sin, "float32", case, SIN)


@cases("tables")
def test_rotary_halves(student: Student, case: Case) -> None:
    """Both halves of a table are equal: pair i is (i, i + head_dim/2).

    表的前后两半相同：第 i 对是 (i, i + head_dim/2)。
    """
    why = Text("pair i owns the features i and i + d/2.", "第 i 对对应特征 i 与 i + d/2。")
    for table, name in zip(_tables(student, case), (COS, SIN), strict=True):
        array = expect_shape(table, case["cos"].shape, case, name).array
        first, second = (Tensor.of(half) for half in np.split(array, 2, axis=-1))
        expect_same(first, second, case, why, name)


@cases("tables")
def test_rotary_values(student: Student, case: Case) -> None:
    """The tables hold the right angles.

    表中的角度正确。
    """
    _expect_tables(student, case)


@cases("tables_theta")
def test_rotary_theta(student: Student, case: Case) -> None:
    """theta and head_dim come from the config.

    theta 与 head_dim 取自配置。
    """
    _expect_tables(student, case)


@cases("tables_far")
def test_rotary_far(student: Student, case: Case) -> None:
    """Positions far away keep their precision (angles in float32).

    位置很大时仍保持精度（角度用 float32 计算）。
    """
    # At 4000 rad float32 itself is good to 2e-4; bfloat16 angles are off by whole turns.
    _expect_tables(student, case, Limit(1e-3, 2e-3))


@cases("tables_batched")
def test_rotary_batched(student: Student, case: Case) -> None:
    """Positions may be [B, T]; the tables are then [B, T, head_dim].

    位置可以是 [B, T]，此时表为 [B, T, head_dim]。
    """
    _expect_tables(student, case)


@cases("tables_two")
def test_rotary_two_models(student: Student, case: Case) -> None:
    """Two models of different theta in one process do not disturb each other.

    同一进程中两个 theta 不同的模型互不干扰。
    """
    other = dict(case.config) | {"rope_theta": case["other_theta"]}
    first = student.new("attention.RotaryEmbedding", config(other))
    second = student.new("attention.RotaryEmbedding", config(case.config))
    before, after = first(case["positions"]), second(case["positions"])
    for result, prefix in ((before, "other_"), (after, "")):
        cos, sin = expect_items(result, 2, case)
        expect_close(cos, case[f"{prefix}cos"], case, COS)
        expect_close(sin, case[f"{prefix}sin"], case, SIN)


# ---------------------------------------------------------------- apply_rotary_pos_emb


def _turn(student: Student, case: Case, prefix: str = "", dtype: str = "float32") -> Result:
    q, k = case["q"], case["k"]
    if dtype != "float32":
        q, k = (Tensor.of(tensor.array.astype(dtype)) for tensor in (q, k))
    tables = case[f"{prefix}cos"], case[f"{prefix}sin"]
    return student.call("attention.apply_rotary_pos_emb", q, k, *tables)


def _rotated(result: Result, case: Case) -> tuple[Tensor, Tensor]:
    rotated_q, rotated_k = expect_items(result, 2, case)
    return (
        expect_shape(rotated_q, case["q"].shape, case, Q),
        expect_shape(rotated_k, case["k"].shape, case, K),
    )


def _scores(rotated: tuple[Tensor, Tensor]) -> Tensor:
    """``q' k'^T`` of every pair of heads: blind to how the features of a head are laid out."""
    q, k = (tensor.array.astype(np.float64) for tensor in rotated)
    return Tensor.of(np.einsum("bhqd,bgkd->bhgqk", q, k))


@cases("rotation")
def test_apply_rotary_runs(student: Student, case: Case) -> None:
    """It runs and keeps the shapes of q and k.

    能运行，并保持 q 与 k 的形状。
    """
    _rotated(_turn(student, case), case)


@cases("rotation")
def test_apply_rotary_scores(student: Student, case: Case) -> None:
    """q'k'^T is right for every pair of positions.

    对任意两个位置，q'k'^T 均正确。
    """
    expect_close(_scores(_rotated(_turn(student, case), case)), case["scores"], case, SCORES)


@cases("rotation")
def test_apply_rotary_norms(student: Student, case: Case) -> None:
    """A rotation changes no vector's length.

    旋转不改变任何向量的长度。
    """
    why = Text("rotating a pair keeps its length.", "旋转一对分量不改变其长度。")
    for rotated, name in zip(_rotated(_turn(student, case), case), ("q", "k"), strict=True):
        before, after = (
            Tensor.of(np.linalg.norm(t.array.astype(np.float64), axis=-1))
            for t in (case[name], rotated)
        )
        expect_same(after, before, case, why, NORMS)


@cases("rotation")
def test_apply_rotary_relative(student: Student, case: Case) -> None:
    """Moving all positions by 17 changes no score.

    所有位置同时移动 17，分数不变。
    """
    results = _turn(student, case), _turn(student, case, "later_")
    here, later = (_rotated(result, case) for result in results)
    expect_same(_scores(later), _scores(here), case, RELATIVE, SCORES)
    moved = Text("positions 17 apart turn a vector.", "相差 17 个位置时向量会转动。")
    expect_unlike(later[0], here[0], case, moved, Q)


@cases("rotation")
def test_apply_rotary_dtype(student: Student, case: Case) -> None:
    """q and k keep their dtype although the tables are float32.

    尽管表为 float32，q 与 k 仍保持各自的数据类型。
    """
    rotated = _rotated(_turn(student, case, dtype="float16"), case)
    for tensor, name in zip(rotated, (Q, K), strict=True):
        expect_dtype(tensor, "float16", case, name)


@cases("rotation")
def test_apply_rotary_batched(student: Student, case: Case) -> None:
    """Tables of [B, T, head_dim] turn each row by its own positions.

    表为 [B, T, head_dim] 时，每一行按自己的位置旋转。
    """
    rotated = _rotated(_turn(student, case, "row_"), case)
    expect_close(_scores(rotated), case["row_scores"], case, SCORES)


# ---------------------------------------------------------------- repeat_kv


@cases("repeating")
def test_repeat_kv_runs(student: Student, case: Case) -> None:
    """It runs and returns n_rep times as many heads.

    能运行，返回 n_rep 倍的头数。
    """
    expect_shape(
        student.call("attention.repeat_kv", case["x"], case["times"]), case["y"].shape, case
    )


@cases("repeating")
def test_repeat_kv_order(student: Student, case: Case) -> None:
    """The copies of a head stand side by side: 0 0 0 1 1 1.

    同一个头的副本相邻排列：0 0 0 1 1 1。
    """
    expect_close(student.call("attention.repeat_kv", case["x"], case["times"]), case["y"], case)


@cases("repeating")
def test_repeat_kv_once(student: Student, case: Case) -> None:
    """n_rep = 1 changes nothing.

    n_rep = 1 时不改变任何内容。
    """
    expect_close(student.call("attention.repeat_kv", case["x"], 1), case["x"], case)


@cases("repeating")
def test_repeat_kv_dtype(student: Student, case: Case) -> None:
    """It keeps the dtype and leaves its input alone.

    保持数据类型，且不修改输入。
    """
    x = Tensor.of(case["x"].array.astype(np.float16))
    result = student.call("attention.repeat_kv", x, case["times"], echo=True)
    value, args, _ = expect_items(result, 3, case)
    expect_dtype(value, "float16", case)
    expect_close(args[0], x, case, INPUT)


# ---------------------------------------------------------------- Qwen3Attention


def _attention(student: Student, case: Case, **changed: Tensor) -> Handle:
    """The student's attention with the case's weights, some of them replaced."""
    weights = case.weights | {name.replace("__", "."): t for name, t in changed.items()}
    dtype = case.values.get("dtype", "float32")
    return student.new(
        "attention.Qwen3Attention", config(case.config), weights=weights, dtype=dtype
    )


def _arguments(case: Case) -> dict[str, Tensor]:
    names = {"attention_mask": "mask", "position_ids": "positions"}
    return {name: case[key] for name, key in names.items() if key in case.tensors}


def _expect_parity(student: Student, case: Case, **options: object) -> None:
    result = _attention(student, case)(case["x"], **_arguments(case))
    expect_close(result, case["y"], case, **options)  # type: ignore[arg-type]


def _changed(tensor: Tensor, part: tuple[object, ...], factor: float = -1.5) -> Tensor:
    array = tensor.array.copy()
    array[part] = array[part] * factor + 0.7  # type: ignore[index]
    return Tensor.of(array)


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

    Hugging Face 的权重按名称加载，不缺少也不多余。
    """
    expect_shape(_attention(student, case)(case["x"]), case["x"].shape, case)


@cases("attention_token")
def test_attention_single_token(student: Student, case: Case) -> None:
    """A single token attends to itself: v_proj, then o_proj.

    单个 token 只关注自己：先 v_proj，再 o_proj。
    """
    _expect_parity(student, case)


@cases("attention_core")
def test_attention_future(student: Student, case: Case) -> None:
    """No output depends on a later token.

    任何输出都不依赖后面的 token。
    """
    attention, why = _attention(student, case), Text("it sees the future.", "它看到了未来。")
    before, tokens = attention(case["x"]), case["x"].shape[1]
    changed = {
        first: attention(_changed(case["x"], (slice(None), slice(first, None))))
        for first in (1, tokens // 2, tokens - 1)
    }
    for first, after in changed.items():
        what = Text(f"the output before token {first}", f"第 {first} 个 token 之前的输出")
        early = (slice(None), slice(0, first))
        expect_same(after, before, case, why, what, part=early)


@cases("attention_uniform")
def test_attention_average(student: Student, case: Case) -> None:
    """With keys of zero every token averages itself and all tokens before it.

    键全为零时，每个 token 对自己及之前的所有 token 取平均。
    """
    _expect_parity(student, case)


@cases("attention_given_mask")
def test_attention_given_mask(student: Student, case: Case) -> None:
    """A mask that is given decides alone who sees whom.

    给定掩码时，由它单独决定谁能看到谁。
    """
    _expect_parity(student, case)


@cases("attention_token_heads")
def test_attention_value_heads(student: Student, case: Case) -> None:
    """Each query head gets the values of its own kv head.

    每个查询头使用与其对应的键值头的值。
    """
    _expect_parity(student, case)


@cases("attention_key_heads")
def test_attention_key_heads(student: Student, case: Case) -> None:
    """Each query head gets the keys of its own kv head.

    每个查询头使用与其对应的键值头的键。
    """
    heads = slice(case["first"], case["last"])
    what = Text("the heads whose keys are zero", "键为零的那些头")
    _expect_parity(student, case, what=what, part=(slice(None), slice(-1, None), heads))


def _expect_scale_free(student: Student, case: Case, name: str) -> None:
    weight = Tensor.of(case.weights[name].array * np.float32(7))
    before = _attention(student, case)(case["x"])
    after = _attention(student, case, **{name.replace(".", "__"): weight})(case["x"])
    why = Text(
        f"{name} times 7 is normed away by the QK-norm.", f"{name} 乘以 7 会被 QK-norm 抵消。"
    )
    expect_same(after, before, case, why, limit=1e-4)


@cases("attention_core")
def test_attention_q_norm(student: Student, case: Case) -> None:
    """The size of q does not matter, since q is normed per head.

    q 的大小无关紧要，因为 q 按头做了归一化。
    """
    _expect_scale_free(student, case, "q_proj.weight")


@cases("attention_core")
def test_attention_k_norm(student: Student, case: Case) -> None:
    """The size of k does not matter, since k is normed per head.

    k 的大小无关紧要，因为 k 按头做了归一化。
    """
    _expect_scale_free(student, case, "k_proj.weight")


@cases("attention_unrotated")
def test_attention_norm_weights(student: Student, case: Case) -> None:
    """With all positions 0, norms, scale and softmax give the right numbers.

    所有位置为 0 时，归一化、缩放与 softmax 的数值正确。
    """
    _expect_parity(student, case, part=LAST_TOKEN)


@cases("attention_spread_norms")
def test_attention_norm_before_rope(student: Student, case: Case) -> None:
    """q and k are normed before they are rotated, not after.

    q 与 k 先归一化再旋转，而不是相反。
    """
    attention = _attention(student, case)
    later = Tensor.of(case["positions"].array + 23)
    before = attention(case["x"], position_ids=case["positions"])
    after = attention(case["x"], position_ids=later)
    why = Text(
        "moving all positions by 23 must not matter; it does when the norm comes after RoPE.",
        "所有位置移动 23 不应有影响；若归一化在 RoPE 之后就会有影响。",
    )
    expect_same(after, before, case, why, limit=1e-4)


@cases("attention_rotated")
def test_attention_shift(student: Student, case: Case) -> None:
    """Only distances between positions matter, and they do matter.

    只有位置之间的距离有影响，而且确实有影响。
    """
    attention = _attention(student, case)
    here, later = case["positions"], Tensor.of(case["positions"].array + 40)
    wider = Tensor.of(case["positions"].array * 2)
    before = attention(case["x"], position_ids=here)
    shifted = attention(case["x"], position_ids=later)
    stretched = attention(case["x"], position_ids=wider)
    expect_same(shifted, before, case, RELATIVE, limit=1e-4)
    far = Text("twice the distances turn q and k further.", "距离加倍后 q 与 k 转得更多。")
    expect_unlike(stretched, before, case, far)


@cases("attention_rotated")
def test_attention_rotation(student: Student, case: Case) -> None:
    """With norm weights of one, the rotation gives the right numbers.

    归一化权重为一时，旋转的数值正确。
    """
    _expect_parity(student, case, part=LAST_TOKEN)


@cases("attention_rows")
def test_attention_positions(student: Student, case: Case) -> None:
    """position_ids may be [B, T], and None means 0 … T-1.

    position_ids 可以是 [B, T]；None 表示 0 … T-1。
    """
    attention = _attention(student, case)
    own = attention(case["x"], position_ids=case["positions"])
    counted = Tensor.of(np.arange(case["x"].shape[1]))
    absent, given = attention(case["x"]), attention(case["x"], position_ids=counted)
    expect_close(own, case["y"], case)
    expect_same(absent, given, case, ARANGE)


@cases("attention_core")
def test_attention_parity(student: Student, case: Case) -> None:
    """The numbers equal those of Hugging Face.

    数值与 Hugging Face 一致。
    """
    _expect_parity(student, case)


@cases("attention_padded")
def test_attention_padding(student: Student, case: Case) -> None:
    """A left-padded batch gives the numbers of Hugging Face.

    左侧填充的批次与 Hugging Face 数值一致。
    """
    _expect_parity(student, case, keep=case["keep"].array)


@cases("attention_checkpoint")
def test_attention_checkpoint(student: Student, case: Case) -> None:
    """The weights of the tiny Qwen3 checkpoint give the numbers of Hugging Face.

    使用小型 Qwen3 检查点的权重，数值与 Hugging Face 一致。
    """
    _expect_parity(student, case)


@cases("attention_long")
def test_attention_long(student: Student, case: Case) -> None:
    """400 tokens give the right numbers too.

    400 个 token 时数值同样正确。
    """
    _expect_parity(student, case)


@cases("attention_tiny_inputs")
def test_attention_eps(student: Student, case: Case) -> None:
    """rms_norm_eps of the config takes part in the QK-norm.

    QK-norm 使用配置中的 rms_norm_eps。
    """
    _expect_parity(student, case)


@cases("attention_large_logits")
def test_attention_large_logits(student: Student, case: Case) -> None:
    """Large logits do not overflow the softmax.

    很大的 logits 不会使 softmax 溢出。
    """
    _expect_parity(student, case, limit=Limit(1e-4, 1e-3))


def _expect_narrow(result: Result, case: Case) -> None:
    expect_dtype(result, case["dtype"], case)
    expect_close(result, case["y"], case)


@cases("attention_bfloat16")
def test_attention_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out.

    输入 bfloat16，输出 bfloat16。
    """
    _expect_narrow(_attention(student, case)(case["x"], **_arguments(case)), case)


@cases("attention_float16")
def test_attention_float16(student: Student, case: Case) -> None:
    """float16 with inputs of 300 neither crashes nor overflows, mask given or not.

    float16 且输入达 300 时，无论是否给定掩码，都既不崩溃也不溢出。
    """
    attention = _attention(student, case)
    causal = attention(case["x"])
    _expect_narrow(attention(case["x"], **_arguments(case)), case)
    _expect_narrow(causal, case)


@cases("attention_core", "attention_padded")
def test_attention_pure(student: Student, case: Case) -> None:
    """It leaves its inputs alone, and the same call gives the same result.

    不修改输入，相同的调用得到相同的结果。
    """
    attention, given = _attention(student, case), _arguments(case)
    first = attention(case["x"], echo=True, **given)
    second = attention(case["x"], **given)
    value, args, kwargs = expect_items(first, 3, case)
    expect_close(args[0], case["x"], case, INPUT)
    for name, tensor in given.items():
        if name == "attention_mask":
            expect_close(kwargs[name], tensor, case, Text(name, name))
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(second, value, case, why)


@cases("attention_core")
def test_attention_batch(student: Student, case: Case) -> None:
    """A row of a batch gives the same alone.

    批次中的一行单独计算时结果相同。
    """
    attention, row = _attention(student, case), case["x"].shape[0] - 1
    together = attention(case["x"])
    alone = attention(Tensor.of(case["x"].array[row : row + 1]))
    whole = expect_shape(together, case["y"].shape, case)
    why = Text("rows of a batch have nothing to do with each other.", "批次中的各行互不相关。")
    expect_same(alone, Tensor.of(whole.array[row : row + 1]), case, why, OUTPUT)


@cases("attention_real")
def test_attention_real_weights(student: Student, case: Case) -> None:
    """Real Qwen3 weights give the numbers of Hugging Face.

    使用真实的 Qwen3 权重，数值与 Hugging Face 一致。
    """
    prefix = case["mapped"]
    attention = student.new("attention.Qwen3Attention", config(case.config), mapped=prefix)
    expect_close(attention(case["x"]), case["y"], case)

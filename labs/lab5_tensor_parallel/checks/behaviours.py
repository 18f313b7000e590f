"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autograder.checks.expect import (
    Named,
    StudentError,
    answers,
    behaviour,
    cases,
    expect_close,
    holds,
    works,
)
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Each, RankResult
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import attention_of, qkv_sizes
from labs.lab5_tensor_parallel.checks.experiments import (
    ENDS,
    HEADS,
    KV_HEADS,
    OTHER,
    QKV,
    ROW,
    SIZE,
    THETA,
    K,
    Q,
    all_near,
    array_of,
    attention_told,
    attention_wanted,
    flat_shares,
    given,
    kv_heads_of,
    near,
    normal,
    places_of,
    replaces,
    row_columns,
    row_gives,
    row_on_one,
    shares_of,
    told,
    told_by_ranks,
    turns_of,
    whole,
)

QK, ROWS, HEAD, TURN = "lab5.qkv", "lab5.row", "lab5.head_norm", "lab5.rotate"
FLAT, ATTEND, MERGED, ACT = (
    "lab5.flat_attention",
    "lab5.attention",
    "lab5.merged",
    "lab5.silu_and_mul",
)
MLP, NORM, LAYER, LOAD = "lab5.mlp", "lab5.norm", "lab5.layer", "lab5.load"
EMBED, LM_HEAD, YARN, ROTARY = "lab5.embedding", "lab5.lm_head", "lab5.yarn", "lab5.rotary"
MLP_PATH, INF = "mlp.Qwen3MLP", float("inf")


# The packed projection: which rows are whose.


@behaviour("values_over_keys", QK)
@cases("qkv_alone_loading")
def behaves_values_over_keys(student: Student, case: Case) -> bool:
    """Queries and keys are right; values begin where keys do."""
    return places_of(student) == {"q": 0, "k": Q, "v": Q}


@behaviour("places_counted_in_heads", QK)
@cases("qkv_alone_loading")
def behaves_places_in_heads(student: Student, case: Case) -> bool:
    """Keys begin behind as many rows as there are heads, or values behind keys do."""
    found = places_of(student)
    if found is None or found["q"] != 0:
        return False
    wanted = {
        (HEADS, HEADS + KV_HEADS), (HEADS, HEADS + K), (HEADS, Q + K), (Q, Q + KV_HEADS),
        (Q, HEADS + KV_HEADS),
    }  # fmt: skip
    return (found["k"], found["v"]) in wanted


@behaviour("packed_q_v_k", QK)
@cases("qkv_alone_loading")
def behaves_values_first(student: Student, case: Case) -> bool:
    """Values lie between queries and keys."""
    return places_of(student) == {"q": 0, "v": Q, "k": Q + K}


@behaviour("packed_k_first", QK)
@cases("qkv_alone_loading")
def behaves_keys_first(student: Student, case: Case) -> bool:
    """Keys and values lie above queries."""
    return places_of(student) == {"k": 0, "v": K, "q": 2 * K}


@behaviour("kv_heads_dealt", QK)
@cases("qkv_shared")
def behaves_dealt_kv_heads(student: Student, case: Case) -> bool:
    """Enough kv heads are shared out rightly; two on four ranks go 0 1 0 1."""
    return (kv_heads_of(student, 2, 2), kv_heads_of(student, 4, 2)) == ([0, 1], [0, 1, 0, 1])


@behaviour("kv_head_first", QK)
@cases("qkv_shared")
def behaves_first_kv_head(student: Student, case: Case) -> bool:
    """Enough kv heads are shared out rightly; of two on four ranks all load the first."""
    return (kv_heads_of(student, 2, 2), kv_heads_of(student, 4, 2)) == ([0, 1], [0, 0, 0, 0])


@behaviour("parameter_replaced_while_loading", QK)
@cases("qkv_alone_loading")
def behaves_replaced_qkv(student: Student, case: Case) -> bool:
    """The module holds what was loaded, the parameter that was handed in does not."""
    loaded = given(np.arange(Q)[:, None] + 100.0)
    return replaces(student, QKV, (1, SIZE, HEADS, KV_HEADS), loaded, "q")


@behaviour("parameter_replaced_while_loading", ROWS)
@cases("row_loading")
def behaves_replaced_row(student: Student, case: Case) -> bool:
    """The module holds what was loaded, the parameter that was handed in does not."""
    return replaces(student, ROW, (2, 3), given(np.arange(6).reshape(3, 2) + 100.0))


@behaviour("parameter_replaced_while_loading", MERGED)
@cases("merged_loading")
def behaves_replaced_merged(student: Student, case: Case) -> bool:
    """The module holds what was loaded, the parameter that was handed in does not."""
    loaded = given(np.arange(6).reshape(3, 2) + 100.0)
    return replaces(student, "mlp.MergedColumnParallelLinear", (2, 3), loaded, 0)


@behaviour("parameter_replaced_while_loading", EMBED)
@cases("embedding_loading")
def behaves_replaced_embedding(student: Student, case: Case) -> bool:
    """The module holds what was loaded, the parameter that was handed in does not."""
    loaded = given(np.arange(6).reshape(3, 2) + 100.0)
    return replaces(student, "model.VocabParallelEmbedding", (3, 2), loaded)


# The sum over ranks.


@behaviour("no_all_reduce", ROWS)
@cases("row")
def behaves_no_sum(student: Student, case: Case) -> bool:
    """Every rank gives its own part, and no rank calls another."""
    return row_gives(student, lambda parts: parts) == 0


@behaviour("sum_lost", ROWS)
@cases("row")
def behaves_lost_sum(student: Student, case: Case) -> bool:
    """Every rank gives its own part after a collective call."""
    return (row_gives(student, lambda parts: parts) or 0) > 0


@behaviour("averaged_over_ranks", ROWS)
@cases("row")
def behaves_average(student: Student, case: Case) -> bool:
    """Every rank gives the mean of the parts."""
    return row_gives(student, lambda parts: [np.mean(parts, 0)] * len(parts)) is not None


@behaviour("largest_over_ranks", ROWS)
@cases("row")
def behaves_maximum(student: Student, case: Case) -> bool:
    """Every rank gives the largest number of the parts."""
    return row_gives(student, lambda parts: [np.max(parts, 0)] * len(parts)) is not None


@behaviour("reduced_on_rank_0", ROWS)
@cases("row")
def behaves_sum_on_rank_0(student: Student, case: Case) -> bool:
    """Rank 0 gives the sum, all others their own part."""
    return row_gives(student, lambda parts: [np.sum(parts, 0), *parts[1:]]) is not None


@behaviour("reduced_twice", ROWS)
@cases("row")
def behaves_two_sums(student: Student, case: Case) -> bool:
    """Every rank gives the sum times the number of ranks."""
    return (
        row_gives(student, lambda parts: [np.sum(parts, 0) * len(parts)] * len(parts)) is not None
    )


@behaviour("row_first_columns", ROWS)
@cases("row_loading")
def behaves_first_columns(student: Student, case: Case) -> bool:
    """Both ranks load the first columns."""
    rows = 10 * np.arange(3)[:, None]
    return all_near(row_columns(student), [rows + [0, 1]] * 2)


@behaviour("row_columns_dealt", ROWS)
@cases("row_loading")
def behaves_dealt_columns(student: Student, case: Case) -> bool:
    """Rank 0 loads columns 0 and 2, rank 1 the others."""
    rows = 10 * np.arange(3)[:, None]
    return all_near(row_columns(student), [rows + [0, 2], rows + [1, 3]])


@behaviour("weight_reshaped_not_cut", ROWS)
@cases("row_loading")
def behaves_reshaped_weight(student: Student, case: Case) -> bool:
    """Each rank has half of the numbers, in the order in which they lie in memory."""
    numbers = (np.arange(4) + 10 * np.arange(3)[:, None]).reshape(2, 3, 2)
    return all_near(row_columns(student), list(numbers))


# Norm and rotation of heads.


def _head_norm(student: Student, dtype: str = "float32") -> Callable[[], Result]:
    def call() -> Result:
        weights = {"weight": given([0.5, 2.0, 1.0, 3.0])}
        norm = student.new("attention.HeadNorm", 4, 1e-5, weights=weights, dtype=dtype)
        return norm(given(normal(5, 3, 4)))

    return call


@behaviour("head_norm_down_the_heads", HEAD)
@cases("head_norm")
def behaves_norm_down_the_heads(student: Student, case: Case) -> bool:
    """Every feature is divided by its root mean square over the heads."""
    x = normal(5, 3, 4).astype(np.float64)
    want = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * [0.5, 2.0, 1.0, 3.0]
    return near(told(student, _head_norm(student)), want)


@behaviour("head_norm_over_heads", HEAD)
@cases("head_norm")
def behaves_norm_over_heads(student: Student, case: Case) -> bool:
    """Every token is divided by one root mean square of all heads."""
    x = normal(5, 3, 4).astype(np.float64)
    want = x / np.sqrt((x**2).mean((1, 2), keepdims=True) + 1e-5) * [0.5, 2.0, 1.0, 3.0]
    return near(told(student, _head_norm(student)), want)


def _wide(student: Student, case: Case, call: Callable[[], Result]) -> bool:
    """Whether the right numbers come as float32, where half precision went in."""
    for value in answers(student, call):
        dtype = getattr(value, "dtype", "")
        return dtype == "float32" and works(student, lambda: expect_close(value, case["y"], case))
    return False


@behaviour("float32_out", HEAD)
@cases("head_norm_float16")
def behaves_wide_head_norm(student: Student, case: Case) -> bool:
    """float16 goes in, the right numbers come as float32."""

    def call() -> Result:
        sizes = case["x"].shape[-1], case["eps"]
        norm = student.new("attention.HeadNorm", *sizes, weights=case.weights, dtype="float16")
        return norm(case["x"])

    return _wide(student, case, call)


def _turns(student: Student, angles: object) -> bool:
    """Whether the pairs turn by these angles, by the rest of the rule."""
    want = np.stack((np.cos(angles), np.sin(angles)), -1)  # type: ignore[call-overload]
    found = turns_of(student)
    return near(found, want) or near(found, want * [1, -1])


@behaviour("rotate_exponent_doubled", TURN)
@cases("rotation")
def behaves_doubled_exponent(student: Student, case: Case) -> bool:
    """Pair j turns by theta ** (-4j / size)."""
    return _turns(student, 100.0 ** -(np.arange(4) / 2))


@behaviour("rotate_exponent", TURN)
@cases("rotation")
def behaves_halved_exponent(student: Student, case: Case) -> bool:
    """Pair j turns by theta ** (-j / size)."""
    return _turns(student, 100.0 ** -(np.arange(4) / 8))


@behaviour("rotate_overwritten", TURN)
@cases("rotation")
def behaves_overwritten_half(student: Student, case: Case) -> bool:
    """The second half is computed from the first half as it is afterwards."""
    x = normal(2, 3, 8)
    positions = np.array([2, 5])
    angles = positions[:, None] * 100.0 ** -(np.arange(4) / 4)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = x[..., :4], x[..., 4:]
    new = first * cos - second * sin
    want = np.concatenate((new, second * cos + new * sin), -1)

    def call() -> Result:
        return student.call("attention.rotate", given(x), whole(positions), 100.0)

    return near(told(student, call), want)


@behaviour("angles_by_head", TURN)
@cases("rotation")
def behaves_angles_by_head(student: Student, case: Case) -> bool:
    """With as many heads as tokens, head h of every token turns by the position of token h."""
    x = normal(3, 3, 8).astype(np.float64)
    positions = np.array([2, 5, 9])

    def turned(axis: int) -> list[float]:
        """Products of the halves as complex numbers, by pair: free of the order of the output."""
        angles = positions[:, None] * 100.0 ** -(np.arange(4) / 4)
        turn = np.exp(1j * (angles[:, None] if axis == 0 else angles[None]))
        z = (x[..., :4] + 1j * x[..., 4:]) * turn
        return [float((z[a, b] * z[c, d].conj()).sum().real) for a, b, c, d in places]

    places = [(0, 0, 1, 2), (0, 1, 2, 0), (1, 0, 2, 2), (0, 2, 1, 1)]

    def call() -> Result:
        return student.call("attention.rotate", given(x), whole(positions), 100.0)

    got = told(student, call)
    if got is None or got.shape != x.shape:
        return False
    products = [float(got[a, b] @ got[c, d]) for a, b, c, d in places]
    return near(np.array(products), turned(1))


# Flat attention: what every key counts.


@behaviour("own_place_hidden", FLAT)
@cases("flat_core")
def behaves_hidden_self(student: Student, case: Case) -> bool:
    """Every token but the first of a sequence averages the tokens before it, without itself."""
    got = shares_of(student)
    want = flat_shares(lambda i, j: j < i)
    later = [1, 2, 4, 5, 6]
    return got is not None and near(got[:, later], want[:, later])


@behaviour("flat_anticausal", FLAT)
@cases("flat_core")
def behaves_anticausal(student: Student, case: Case) -> bool:
    """Every token sees itself and what comes after it in its sequence."""
    return near(shares_of(student), flat_shares(lambda i, j: j >= i))


@behaviour("flat_no_mask", FLAT)
@cases("flat_core")
def behaves_unmasked(student: Student, case: Case) -> bool:
    """Every token sees all of its sequence."""
    return near(shares_of(student), flat_shares(lambda i, j: j >= 0 * i))


@behaviour("flat_scale_of_all_heads", FLAT)
@cases("flat_core")
def behaves_scale_of_all_heads(student: Student, case: Case) -> bool:
    """Scores are divided by the root of heads times head_dim."""
    return near(shares_of(student), flat_shares(lambda i, j: j <= i, 32**-0.5))


@behaviour("flat_no_scale", FLAT)
@cases("flat_core")
def behaves_unscaled(student: Student, case: Case) -> bool:
    """Scores are not divided at all."""
    return near(shares_of(student), flat_shares(lambda i, j: j <= i, 1.0))


@behaviour("flat_last_sequence_lost", FLAT)
@cases("flat_core")
def behaves_lost_sequence(student: Student, case: Case) -> bool:
    """All sequences are right but the last, of which nothing comes, or zeros."""
    want = flat_shares(lambda i, j: j <= i)
    empty = want * (np.arange(8) < ENDS[-2])[:, None]
    return near(shares_of(student), want[:, : ENDS[-2]], empty)


# Attention, whole.


@behaviour("values_normed", ATTEND)
@cases("attention_core")
def behaves_normed_values(student: Student, case: Case) -> bool:
    """Values go through a norm as queries or keys do."""
    wanted = (attention_wanted(norm_v=f"{name}_norm.weight") for name in "kq")
    return near(attention_told(student), *wanted)


@behaviour("split_keys_as_values", ATTEND)
@cases("attention_core")
def behaves_exchanged(student: Student, case: Case) -> bool:
    """Keys are taken for values, and values for keys."""
    return near(attention_told(student), attention_wanted(swapped=True))


@behaviour("only_q_rotated", ATTEND)
@cases("attention_core")
def behaves_still_keys(student: Student, case: Case) -> bool:
    """Queries turn, keys do not."""
    return near(attention_told(student), attention_wanted(for_k=INF))


@behaviour("rotary_for_queries_only", ATTEND)
@cases("attention_core")
def behaves_rotary_for_queries(student: Student, case: Case) -> bool:
    """Its own rotation is right; one that is passed in turns queries, keys turn as before or not."""
    wanted = (attention_wanted(for_q=OTHER, for_k=base) for base in (THETA, INF))
    return near(attention_told(student), attention_wanted()) and near(
        attention_told(student, passed=True), *wanted
    )


# The MLP, the norm, and loading.


@behaviour("merged_shard_ignored", MERGED)
@cases("merged_loading")
def behaves_ignored_shard(student: Student, case: Case) -> bool:
    """Gate and up alike are written to the first rows."""
    numbers = np.arange(3)[:, None] + 100.0

    def first_rows(shard: int) -> bool:
        def load() -> Result:
            linear = student.new("mlp.MergedColumnParallelLinear", 1, 3)
            weight = student.new("builtins.getattr", linear, "weight")
            student.call(linear, weight, given(numbers), shard, method="weight_loader")
            return student.get(linear, "weight")

        rows = told(student, load)
        return rows is not None and rows.shape == (6, 1) and near(rows[:3], numbers)

    return first_rows(0) and first_rows(1)


@behaviour("down_proj_of_its_own", MLP)
@cases("mlp_standing")
def behaves_own_down_proj(student: Student, case: Case) -> bool:
    """down_proj is a module, and another one than what was handed in."""

    def kind(name: str) -> Callable[[], Result]:
        def call() -> Result:
            down = student.new("labs.given.flat.StandInDown", *case["sizes"])
            held = student.new(
                "builtins.getattr", student.new(MLP_PATH, *case["sizes"], down), "down_proj"
            )
            return student.call("builtins.isinstance", held, Named(name))

        return call

    modules = answers(student, kind("torch.nn.Module"))
    return modules == [True] and answers(student, kind("labs.given.flat.StandInDown")) == [False]


def _norm(student: Student, case: Case, *residual: object) -> Callable[[], Result]:
    def call() -> Result:
        sizes, dtype = (case["x"].shape[-1], case["eps"]), case.values["dtype"]
        norm = student.new("mlp.RMSNorm", *sizes, weights=case.weights, dtype=dtype)
        return norm(case["x"], *residual)

    return call


@behaviour("residual_in_float32", NORM)
@cases("norm_float16")
def behaves_wide_residual(student: Student, case: Case) -> bool:
    """float16 goes in; of a right pair the sum comes as float32, the normed tensor does not."""
    for value in answers(student, _norm(student, case, case["residual"])):
        pair = value if isinstance(value, (tuple, list)) and len(value) == 2 else (None, None)
        total = case["x"].array.astype(np.float64) + case["residual"].array
        dtypes = [getattr(one, "dtype", "") for one in pair]
        return (
            dtypes == ["float16", "float32"]
            and near(array_of(pair[1]), total)
            and works(student, lambda: expect_close(pair[0], case["y"], case))
        )
    return False


@behaviour("sum_left_out", NORM)
@cases("norm")
def behaves_norm_without_sum(student: Student, case: Case) -> bool:
    """The right normed tensor comes alone."""
    call = _norm(student, case, case["residual"])
    return works(student, lambda: expect_close(call(), case["y"], case))


def _kind_of_error(student: Student, case: Case, name: str) -> str:
    """What loading a tensor of this name raises; nothing where it does not."""
    tensor = next(iter(case.group("hf.").values()))
    try:
        model = student.new("labs.given.flat.StandInModel", case["shapes"], case["packed"])
        student.call("mlp.load_weights", model, {name: tensor})
        student.flush()
    except StudentError as error:
        return error.type
    return ""


@behaviour("unknown_by_another_error", LOAD)
@cases("load_plain")
def behaves_other_error(student: Student, case: Case) -> bool:
    """A name that is there raises nothing; others raise something else than KeyError."""
    known = next(iter(case.group("hf.")))
    unknown = "layers.3.mlp.scale_proj.weight", "layers.3.self_attn.q_proj.weight"
    kinds = [_kind_of_error(student, case, name) for name in unknown]
    return (
        not _kind_of_error(student, case, known) and "" not in kinds and kinds != ["KeyError"] * 2
    )


@behaviour("names_in_names", LOAD)
@cases("load_plain")
def behaves_replaced_text(student: Student, case: Case) -> bool:
    """What belongs to q_proj_scale lands in qkv_proj_scale."""
    shapes = {"a.q_proj_scale.weight": [2], "a.qkv_proj_scale.weight": [2]}
    numbers = [5.0, 7.0]

    def call() -> Result:
        model = student.new("labs.given.flat.StandInModel", shapes, ["a.qkv_proj_scale.weight"])
        student.call("mlp.load_weights", model, {"a.q_proj_scale.weight": given(numbers)})
        return student.call(model)

    for found in answers(student, call):
        places = found if isinstance(found, dict) else {}
        notes = [n for n, tensor in places.items() if near(array_of(tensor), numbers)]
        return bool(notes) and all(note.startswith("a.qkv_proj_scale.weight") for note in notes)
    return False


# The vocabulary on two ranks, which share five ids: rank 1 has a row too much.

TABLE = np.arange(1, 11, dtype=np.float64).reshape(5, 2)
STATES = normal(6, 2, seed=8)


@behaviour("surplus_rows_left", EMBED)
@cases("embedding_loading")
def behaves_left_rows(student: Student, case: Case) -> bool:
    """All rows that have an id are right; the one that has none is neither zero nor one of them."""

    def load() -> RankResult:
        group = student.ranks(2)
        embedding = group.new("model.VocabParallelEmbedding", 5, 2)
        weight = group.new("builtins.getattr", embedding, "weight")
        group.call(embedding, weight, given(TABLE), method="weight_loader")
        return group.get(embedding, "weight")

    found = told_by_ranks(load)
    if found is None or any(rows.shape != (3, 2) for rows in found[0]):
        return False
    rows = np.concatenate(found[0])
    surplus = rows[5]
    return near(rows[:5], TABLE) and bool(surplus.any()) and not (TABLE == surplus).all(1).any()


def _head(student: Student) -> list[np.ndarray] | None:
    def call() -> RankResult:
        group = student.ranks(2)
        rows = np.concatenate((TABLE, np.zeros((1, 2))))
        held = Each([{"weight": given(rows[:3])}, {"weight": given(rows[3:])}])
        head = group.new("model.ParallelLMHead", 5, 2, weights=held)
        return group.call(head, given(STATES), whole([0, 1, 4, 6]))

    found = told_by_ranks(call)
    return None if found is None else found[0]


LOGITS = STATES[[0, 3, 5]] @ np.concatenate((TABLE, np.zeros((1, 2)))).T  # [sequences, rows]


@behaviour("head_gathered_and_reshaped", LM_HEAD)
@cases("lm_head")
def behaves_reshaped_logits(student: Student, case: Case) -> bool:
    """The logits of rank 0 for all sequences come first, in the form of the whole."""
    mixed = np.concatenate((LOGITS[:, :3], LOGITS[:, 3:])).reshape(3, 6)
    return all_near(_head(student), [mixed[:, :5]] * 2)


@behaviour("head_zeros_of_the_others", LM_HEAD)
@cases("lm_head")
def behaves_zeros_of_others(student: Student, case: Case) -> bool:
    """Every rank has its own logits, and zeros for the others'."""
    own = LOGITS * (np.arange(6) < 3), LOGITS * (np.arange(6) >= 3)
    return all_near(_head(student), [logits[:, :5] for logits in own])


# Rotation with a scaling.


@behaviour("attention_factor_forgotten", ROTARY)
@cases("rotary_scaled")
def behaves_no_default_factor(student: Student, case: Case) -> bool:
    """A factor that is given scales the heads; without one their length stays."""

    def grown(**more: float) -> np.ndarray | None:
        def call() -> Result:
            sizes = case["size"], case["theta"], {**case["scaling"], **more}
            return student.new("model.RotaryEmbedding", *sizes)(case["q"], case["positions"])

        got = told(student, call)
        if got is None or got.shape != case["q"].shape:
            return None
        lengths = np.linalg.norm(case["q"].array.astype(np.float64), axis=-1)
        return np.asarray(np.linalg.norm(got, axis=-1) / lengths)

    ones = np.ones(case["q"].shape[:-1])
    return near(grown(), ones) and near(grown(attention_factor=1.5), 1.5 * ones)


# What a call gives that ends without a return, or with more than it should.


def _call(student: Student, case: Case, exercise: str) -> Result:
    """The simplest call of an exercise, on one rank."""
    if exercise == TURN:
        return student.call("attention.rotate", case["q"], case["positions"], case["theta"])
    if exercise == FLAT:
        tensors = (case[name] for name in ("q", "k", "v", "cu"))
        return student.call("attention.flat_attention", *tensors)
    if exercise == ATTEND:
        return attention_of(student, case)(case["positions"], case["x"], case["cu"])
    if exercise == ACT:
        return student.new("mlp.SiluAndMul")(case["x"])
    if exercise == YARN:
        sizes = case["size"], case["theta"], case["scaling"]
        return student.call("model.yarn_frequencies", *sizes)
    if exercise == ROTARY:
        sizes = case["size"], case["theta"], case["scaling"]
        return student.new("model.RotaryEmbedding", *sizes)(case["q"], case["positions"])
    if exercise == NORM:
        return _norm(student, case, case["residual"])()
    if exercise == HEAD:
        sizes = case["x"].shape[-1], case["eps"]
        return student.new("attention.HeadNorm", *sizes, weights=case.weights)(case["x"])
    if exercise == MLP:
        down = student.new("labs.given.flat.StandInDown", *case["sizes"])
        mlp = student.new(MLP_PATH, *case["sizes"], down, weights=case.group("1.0."))
        return mlp(case["x"])
    if exercise == LAYER:
        hidden, eps = case.config["hidden_size"], case.config["rms_norm_eps"]
        parts = (student.new(f"labs.given.flat.StandIn{n}", hidden) for n in ("Attention", "MLP"))
        layer = student.new("mlp.Qwen3DecoderLayer", hidden, eps, *parts)
        return layer(case["positions"], case["x"], None, case["cu"])
    if exercise == EMBED:
        weights = {"weight": case["weight"]}
        return student.new(PATHS[exercise], *case["sizes"], weights=weights)(case["ids"])
    if exercise == LM_HEAD:
        weights = {"weight": case["weight"]}
        return student.new(PATHS[exercise], *case["sizes"], weights=weights)(case["x"], case["cu"])
    sizes = qkv_sizes(case) if exercise == QK else case["sizes"]
    weights = {"weight": case["weight" if exercise == ROWS else "1.0.weight"]}
    return student.new(PATHS[exercise], *sizes, weights=weights)(case["x"])


PATHS = {
    QK: QKV, ROWS: ROW, MERGED: "mlp.MergedColumnParallelLinear",
    EMBED: "model.VocabParallelEmbedding", LM_HEAD: "model.ParallelLMHead",
}  # fmt: skip


def _silent(student: Student, case: Case, exercise: str) -> bool:
    return None in answers(student, lambda: _call(student, case, exercise))


def _beside(student: Student, case: Case, exercise: str, name: str = "y") -> bool:
    """Whether the right answer is one of several items."""
    return holds(
        student,
        lambda: _call(student, case, exercise),
        lambda item: expect_close(item, case[name], case),
    )


@behaviour("nothing_returned", QK)
@cases("qkv_alone")
def behaves_silent_qkv(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, QK)


@behaviour("nothing_returned", ROWS)
@cases("row")
def behaves_silent_row(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, ROWS)


@behaviour("nothing_returned", HEAD)
@cases("head_norm")
def behaves_silent_head_norm(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, HEAD)


@behaviour("nothing_returned", TURN)
@cases("rotation")
def behaves_silent_rotate(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, TURN)


@behaviour("nothing_returned", FLAT)
@cases("flat_core")
def behaves_silent_flat(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, FLAT)


@behaviour("nothing_returned", ATTEND)
@cases("attention_core")
def behaves_silent_attention(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, ATTEND)


@behaviour("nothing_returned", MERGED)
@cases("merged")
def behaves_silent_merged(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, MERGED)


@behaviour("nothing_returned", ACT)
@cases("activation")
def behaves_silent_act(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, ACT)


@behaviour("nothing_returned", MLP)
@cases("mlp_standing")
def behaves_silent_mlp(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, MLP)


@behaviour("nothing_returned", EMBED)
@cases("embedding_alone")
def behaves_silent_embedding(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, EMBED)


@behaviour("nothing_returned", LM_HEAD)
@cases("lm_head")
def behaves_silent_head(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, LM_HEAD)


@behaviour("nothing_returned", YARN)
@cases("yarn")
def behaves_silent_yarn(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, YARN)


@behaviour("nothing_returned", NORM)
@cases("norm")
def behaves_silent_norm(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, NORM)


@behaviour("nothing_returned", LAYER)
@cases("layers")
def behaves_silent_layer(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, LAYER)


@behaviour("nothing_returned", ROTARY)
@cases("rotary_plain")
def behaves_silent_rotary(student: Student, case: Case) -> bool:
    """The call gives None."""
    return _silent(student, case, ROTARY)


@behaviour("tuple_returned", QK)
@cases("qkv_alone")
def behaves_tuple_of_qkv(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, QK, "1.0.y")


@behaviour("tuple_returned", ROWS)
@cases("row")
def behaves_tuple_of_row(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, ROWS)


@behaviour("tuple_returned", HEAD)
@cases("head_norm")
def behaves_tuple_of_head_norm(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, HEAD)


@behaviour("tuple_returned", FLAT)
@cases("flat_core")
def behaves_tuple_of_flat(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, FLAT)


@behaviour("tuple_returned", ATTEND)
@cases("attention_core")
def behaves_tuple_of_attention(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, ATTEND)


@behaviour("tuple_returned", MERGED)
@cases("merged")
def behaves_tuple_of_merged(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, MERGED, "1.0.y")


@behaviour("tuple_returned", ACT)
@cases("activation")
def behaves_tuple_of_act(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, ACT)


@behaviour("tuple_returned", MLP)
@cases("mlp_standing")
def behaves_tuple_of_mlp(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, MLP)


@behaviour("tuple_returned", EMBED)
@cases("embedding_alone")
def behaves_tuple_of_embedding(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, EMBED)


@behaviour("tuple_returned", LM_HEAD)
@cases("lm_head")
def behaves_tuple_of_head(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, LM_HEAD)


@behaviour("tuple_returned", YARN)
@cases("yarn")
def behaves_tuple_of_yarn(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return _beside(student, case, YARN)

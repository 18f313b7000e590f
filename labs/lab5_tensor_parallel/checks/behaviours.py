"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from autograder.checks.expect import (
    Named,
    answers,
    behaviour,
    cases,
    expect_close,
    expect_dtype,
    works,
)
from autograder.checks.experiments import is_right, near, normal
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from labs.lab5_tensor_parallel.checks.experiments import (
    BASE,
    LOGITS,
    OTHER,
    TENS,
    THETA,
    attends,
    attention_told,
    attention_wanted,
    confuses_lengths,
    flat_shares,
    gives,
    head_confuses_lengths,
    head_loses_last_border,
    head_on_ranks,
    heads_given_back,
    late_shares,
    leaves_surplus_rows,
    loads,
    loads_evenly,
    loses_last_border,
    mixes,
    normed_along,
    of_other_base,
    rotated,
    row_gives,
    row_leaves_some,
    row_on_one,
    shares_of,
    turned,
    turns_by,
    x_given_back,
)
from labs.lab5_tensor_parallel.checks.questions import (
    ATTEND,
    EMBED,
    FLAT,
    HEAD,
    HEADS,
    KV_HEADS,
    LM_HEAD,
    LOAD,
    MERGED,
    MERGED_PATH,
    MLP,
    NORM,
    QK,
    QKV,
    ROTARY,
    ROW,
    ROWS,
    TABLE_PATH,
    TURN,
    WHOLE,
    K,
    Q,
    all_near,
    array_of,
    given,
    kind_of_error,
    norm_pair,
    norm_told,
    normed_by_length,
    packed_on,
    parameters_listed,
    places_of,
    places_on_ranks,
    replaced,
    shares_mlp,
    shown,
    told,
)

INF = float("inf")


# The packed projection: which rows are whose.


behaves_values_over_keys = shown(  # Queries and keys are right; values begin where keys do.
    "values_over_keys", QK, "qkv_alone_loading",
    lambda student, case: places_of(student) == {"q": 0, "k": Q, "v": Q},
)  # fmt: skip
# One rank alone is right; on two, keys begin behind the query rows of the whole model.
behaves_places_of_model = shown(
    "places_of_whole_model", QK, "qkv_own_loading",
    lambda student, case: places_of(student) == {"q": 0, "k": Q, "v": Q + K}
    and places_on_ranks(student) in [{"q": 0, "k": Q, "v": v} for v in (Q + K, Q + K // 2)],
)  # fmt: skip
behaves_whole_kv_heads = shown(  # Four ranks that share two kv heads have room for both.
    "kv_heads_whole", QK, "qkv_shared",
    lambda student, case: [(packed_on(student, world, 2) or [0])[0] for world in (1, 4)] == [12, 6],
)  # fmt: skip
behaves_attributes_of_model = shown(  # The weight of a rank is right, its attributes are not.
    "attributes_of_whole_model", QK, "qkv_own",
    lambda student, case: (packed_on(student, 2, 4), packed_on(student, 4, 2))
    in (((8, 8, 4), (4, 8, 2)), ((8, 8, 2), (4, 8, 1)), ((8, 4, 4), (4, 2, 2))),
)  # fmt: skip


@behaviour("places_counted_in_heads", QK)
@cases("qkv_alone_loading")
def behaves_places_in_heads(student: Student, case: Case) -> bool:
    """Keys begin behind as many rows as there are heads, or values behind keys do."""
    found = places_of(student)
    if found is None or found["q"] != 0:
        return False
    for_keys_too = (HEADS, HEADS + KV_HEADS), (HEADS, HEADS + K), (HEADS, Q + K)
    return (found["k"], found["v"]) in (*for_keys_too, (Q, Q + KV_HEADS), (Q, HEADS + KV_HEADS))


behaves_values_first = shown(  # Values lie between queries and keys.
    "packed_q_v_k", QK, "qkv_alone_loading",
    lambda student, case: places_of(student) == {"q": 0, "v": Q, "k": Q + K},
)  # fmt: skip
behaves_keys_first = shown(  # Keys and values lie above queries.
    "packed_k_first", QK, "qkv_alone_loading",
    lambda student, case: places_of(student) == {"k": 0, "v": K, "q": 2 * K},
)  # fmt: skip
# The module holds what was loaded, the parameter that was handed in does not.
behaves_replaced_qkv = replaced(QK, "qkv_alone_loading", QKV, (2, 1, 3, 1), "q")
behaves_replaced_row = replaced(ROWS, "row_loading", ROW, (2, 3))
behaves_replaced_merged = replaced(MERGED, "merged_loading", MERGED_PATH, (2, 3), 0)
behaves_replaced_embedding = replaced(EMBED, "embedding_loading", TABLE_PATH, (3, 2))


# The sum over ranks.


behaves_no_sum = shown(  # Every rank gives its own part, and no rank calls another.
    "no_all_reduce", ROWS, "row",
    lambda student, case: row_gives(student, lambda parts: parts) == 0,
)  # fmt: skip
behaves_lost_sum = shown(  # Every rank gives its own part after a collective call.
    "handle_not_waited_for", ROWS, "row",
    lambda student, case: (row_gives(student, lambda parts: parts) or 0) > 0,
)  # fmt: skip
# Every rank gives the mean of the parts.
behaves_average = gives("averaged_over_ranks", lambda parts: [np.mean(parts, 0)] * len(parts))
# Every rank gives the largest number of the parts.
behaves_maximum = gives("largest_over_ranks", lambda parts: [np.max(parts, 0)] * len(parts))
# Rank 0 gives the sum, all others their own part.
behaves_sum_on_rank_0 = gives("reduced_on_rank_0", lambda parts: [np.sum(parts, 0), *parts[1:]])
# Every rank gives the sum times the number of ranks.
behaves_two_sums = gives(
    "reduced_twice", lambda parts: [np.sum(parts, 0) * len(parts)] * len(parts)
)
# Of all parts side by side, every rank adds as many neighbours as there are ranks.
behaves_neighbours_added = gives(
    "neighbours_added_over_ranks",
    lambda parts: [np.concatenate(parts, 1).reshape(3, 5, -1).sum(2)] * len(parts),
)
# Every rank gives the part of the last one, as often as there are ranks.
behaves_last_part = gives(
    "one_buffer_for_all_parts", lambda parts: [parts[-1] * len(parts)] * len(parts)
)


behaves_one_caller = shown(  # One rank alone is right; of several, some return while others wait.
    "all_reduce_on_one_rank", ROWS, "row",
    lambda student, case: row_on_one(student) and row_leaves_some(student),
)  # fmt: skip
# Columns of a weight of ten times the row and the column, as each of two ranks loads them.
behaves_first_columns = loads("row_first_columns", TENS + np.array([[[0, 1]]] * 2))
behaves_dealt_columns = loads("row_columns_dealt", TENS + np.array([[[0, 2]], [[1, 3]]]))
behaves_reshaped_weight = loads("weight_reshaped_not_cut", (TENS + np.arange(4)).reshape(2, 3, 2))


# Norm and rotation of heads.


behaves_norm_down_the_heads = shown(  # Features are divided by their mean over the heads.
    "head_norm_down_the_heads", HEAD, "head_norm",
    lambda student, case: normed_along(student, 1),
)  # fmt: skip
behaves_norm_over_heads = shown(  # Tokens are divided by one mean over all heads.
    "head_norm_over_heads", HEAD, "head_norm",
    lambda student, case: normed_along(student, (1, 2)),
)  # fmt: skip


@behaviour("head_norm_float32_out", HEAD)
@cases("head_norm_float16")
def behaves_wide_head_norm(student: Student, case: Case) -> bool:
    """float16 goes in, the right numbers come as float32."""

    def call() -> Result:
        sizes = case["x"].shape[-1], case["eps"]
        norm = student.new("attention.HeadNorm", *sizes, weights=case.weights, dtype="float16")
        return norm(case["x"])

    return is_right(student, case, call) and works(
        student, lambda: expect_dtype(call(), "float32", case)
    )


behaves_doubled_exponent = shown(  # Pair j turns by theta ** (-4j / size).
    "rotate_exponent_doubled", TURN, "rotation",
    lambda student, case: turns_by(student, BASE ** -(np.arange(4) / 2)),
)  # fmt: skip
behaves_halved_exponent = shown(  # Pair j turns by theta ** (-j / size).
    "rotate_exponent", TURN, "rotation",
    lambda student, case: turns_by(student, BASE ** -(np.arange(4) / 8)),
)  # fmt: skip


@behaviour("rotate_overwritten", TURN)
@cases("rotation")
def behaves_overwritten_half(student: Student, case: Case) -> bool:
    """The second half is computed from the first half as it is afterwards."""
    x, positions = normal(2, 3, 8).astype(np.float64), np.array([2, 5])
    first = turned(x, positions, BASE)[..., :4]
    later = turned(np.concatenate((first, x[..., 4:]), -1), positions, BASE)[..., 4:]
    return near(rotated(student, x, positions), np.concatenate((first, later), -1))


@behaviour("angles_by_head", TURN)
@cases("rotation")
def behaves_angles_by_head(student: Student, case: Case) -> bool:
    """With as many heads as tokens, head h of every token turns by the position of token h."""
    x, positions = normal(3, 3, 8).astype(np.float64), np.array([2, 5, 9])
    got = rotated(student, x, positions)
    want = turned(x.swapaxes(0, 1), positions, BASE).swapaxes(0, 1)
    if got is None or got.shape != x.shape:
        return False
    return near(*(np.tensordot(one, one, (-1, -1)) for one in (got, want)))


# Flat attention: what every key counts.


@behaviour("flat_mask_diagonal", FLAT)
@cases("flat_core")
def behaves_hidden_self(student: Student, case: Case) -> bool:
    """Every token but the first of a sequence averages the tokens before it, without itself."""
    got = shares_of(student)
    want = flat_shares(lambda i, j: j < i)
    later = [1, 2, 4, 5, 6]
    return got is not None and near(got[:, later], want[:, later])


# Every token sees itself and what comes after it in its sequence.
behaves_anticausal = attends("flat_anticausal", lambda i, j: j >= i)
# Every token sees all of its sequence.
behaves_unmasked = attends("flat_no_mask", lambda i, j: j >= 0 * i)
# Scores are divided by the root of heads times head_dim.
behaves_scale_of_all_heads = attends("flat_scale_of_all_heads", lambda i, j: j <= i, 32**-0.5)
# Scores are not divided at all.
behaves_unscaled = attends("flat_no_scale", lambda i, j: j <= i, 1.0)
behaves_masked_late = shown(  # What is hidden has had its share of the softmax.
    "flat_masked_after_softmax", FLAT, "flat_core",
    lambda student, case: near(shares_of(student), *late_shares()),
)  # fmt: skip


behaves_lost_border = shown(  # All would be right, were the last border there twice.
    "flat_last_sequence_lost", FLAT, "flat_core",
    lambda student, case: loses_last_border(student),
)  # fmt: skip
behaves_lost_border_of_head = shown(  # The same for logits: the last row is absent.
    "flat_last_sequence_lost", LM_HEAD, "lm_head",
    lambda student, case: head_loses_last_border(student),
)  # fmt: skip
behaves_confused_lengths = shown(  # Borders are taken for lengths, or lengths for ends.
    "lengths_taken_for_borders", FLAT, "flat_core",
    lambda student, case: confuses_lengths(student),
)  # fmt: skip
behaves_confused_lengths_of_head = shown(  # The same for logits.
    "lengths_taken_for_borders", LM_HEAD, "lm_head",
    lambda student, case: head_confuses_lengths(student),
)  # fmt: skip


# Attention, whole.


@behaviour("values_normed", ATTEND)
@cases("attention_core")
def behaves_normed_values(student: Student, case: Case) -> bool:
    """Values go through a norm as queries or keys do."""
    wanted = (attention_wanted(norm_v=f"{name}_norm.weight") for name in "kq")
    return near(attention_told(student), *wanted)


# Keys are taken for values, and values for keys.
behaves_exchanged = mixes("split_keys_as_values", swapped=True)
# Queries turn, keys do not.
behaves_still_keys = mixes("only_q_rotated", for_k=INF)
# Each kv head's queries, key and value lie side by side.
behaves_split_by_groups = mixes("split_by_groups", grouped=True)


@behaviour("rotary_called_backwards", ATTEND)
@cases("attention_core")
def behaves_backward_rotary(student: Student, case: Case) -> bool:
    """A rotation that gives back heads works whatever the order; one that gives back x does not."""
    still = attention_wanted(for_q=INF, for_k=INF)
    found = [attention_told(student, made) for made in (None, heads_given_back, x_given_back)]
    return (
        near(found[0], attention_wanted()) and near(found[1], still) and not near(found[2], still)
    )


@behaviour("rotary_for_queries_only", ATTEND)
@cases("attention_core")
def behaves_rotary_for_queries(student: Student, case: Case) -> bool:
    """Its own rotation is right; one that is passed in turns queries, and not keys."""
    wanted = (attention_wanted(for_q=OTHER, for_k=base) for base in (THETA, INF))
    return near(attention_told(student), attention_wanted()) and near(
        attention_told(student, of_other_base), *wanted
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
            mlp = student.new("mlp.Qwen3MLP", *case["sizes"], down)
            held = student.new("builtins.getattr", mlp, "down_proj")
            return student.call("builtins.isinstance", held, Named(name))

        return call

    kinds = answers(student, kind("torch.nn.Module"), kind("labs.given.flat.StandInDown"))
    return kinds == [True, False]


behaves_norm_by_sum = shown(  # The sum is right, and normed by its length.
    "norm_by_sum_of_squares", NORM, "norm",
    lambda student, case: near(norm_told(student, case), normed_by_length(case)),
)  # fmt: skip


@behaviour("residual_in_float32", NORM)
@cases("norm_float16")
def behaves_wide_residual(student: Student, case: Case) -> bool:
    """float16 goes in; of a right pair the sum comes as float32, the normed tensor does not."""
    for value in answers(student, lambda: norm_pair(student, case)):
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            return False
        normed, total = value
        want = case["x"].array.astype(np.float64) + case["residual"].array
        wide = [getattr(one, "dtype", "") for one in value] == ["float16", "float32"]
        right = partial(expect_close, normed, case["y"], case)
        return wide and near(array_of(total), want) and works(student, right)
    return False


@behaviour("one_tensor_without_residual", NORM)
@cases("norm")
def behaves_norm_without_sum(student: Student, case: Case) -> bool:
    """The right normed tensor comes alone."""
    return works(student, lambda: expect_close(norm_pair(student, case), case["y"], case))


@behaviour("unknown_by_another_error", LOAD)
@cases("load_plain")
def behaves_other_error(student: Student, case: Case) -> bool:
    """A name that is there raises nothing; others raise something else than KeyError."""
    known = next(iter(case.group("hf.")))
    unknown = "layers.3.mlp.scale_proj.weight", "layers.3.self_attn.q_proj.weight"
    kinds = [kind_of_error(student, case, name) for name in unknown]
    return not kind_of_error(student, case, known) and "" not in kinds and kinds != ["KeyError"] * 2


@behaviour("names_in_names", LOAD)
@cases("load_plain")
def behaves_replaced_text(student: Student, case: Case) -> bool:
    """What belongs to v_proj_scale lands in qkv_proj_scale."""
    shapes = {"a.v_proj_scale.weight": [2], "a.qkv_proj_scale.weight": [2]}
    numbers = [5.0, 7.0]

    def call() -> Result:
        model = student.new("labs.given.flat.StandInModel", shapes, ["a.qkv_proj_scale.weight"])
        student.call("mlp.load_weights", model, {"a.v_proj_scale.weight": given(numbers)})
        return student.call(model)

    for found in answers(student, call):
        places = found if isinstance(found, dict) else {}
        notes = [n for n, tensor in places.items() if near(array_of(tensor), numbers)]
        return bool(notes) and all(note.startswith("a.qkv_proj_scale.weight") for note in notes)
    return False


# The vocabulary on two ranks: five ids, six rows.


behaves_left_rows = shown(  # Rows that have an id are right; the one that has none is as before.
    "surplus_rows_left", EMBED, "embedding_loading",
    lambda student, case: leaves_surplus_rows(student),
)  # fmt: skip
behaves_even_rows = shown(  # Of five rows three of four ranks load one: not 2, 2, 1 and 0.
    "rows_shared_out_evenly", EMBED, "embedding_loading",
    lambda student, case: loads_evenly(student),
)  # fmt: skip
behaves_two_parameters = shown(  # A tied model lists head and embedding.
    "two_parameters", WHOLE, "lm_tied",
    lambda student, case: {"lm_head.weight", "model.embed_tokens.weight"}
    <= parameters_listed(student, case),
)  # fmt: skip


@behaviour("head_gathered_and_reshaped", LM_HEAD)
@cases("lm_head")
def behaves_reshaped_logits(student: Student, case: Case) -> bool:
    """The logits of rank 0 for all sequences come first, in the form of the whole."""
    mixed = np.concatenate((LOGITS[:, :3], LOGITS[:, 3:])).reshape(3, 6)
    return all_near(head_on_ranks(student), [mixed[:, :5]] * 2)


@behaviour("head_zeros_of_the_others", LM_HEAD)
@cases("lm_head")
def behaves_zeros_of_others(student: Student, case: Case) -> bool:
    """Every rank has its own logits, and zeros for the others'."""
    own = LOGITS * (np.arange(6) < 3), LOGITS * (np.arange(6) >= 3)
    return all_near(head_on_ranks(student), [logits[:, :5] for logits in own])


@behaviour("head_one_share_for_all", LM_HEAD)
@cases("lm_head")
def behaves_one_share_for_all(student: Student, case: Case) -> bool:
    """Every share of the logits holds what one and the same rank has."""
    shares = [np.hstack([own] * 2)[:, :5] for own in (LOGITS[:, :3], LOGITS[:, 3:])]
    found = head_on_ranks(student)
    return found is not None and all(near(logits, *shares) for logits in found)


behaves_shared_mlp = shown("mlp_shared_by_layers", "lab5.model", "model_core", shares_mlp)

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

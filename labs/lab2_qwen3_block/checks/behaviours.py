"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from autograder.checks.expect import (
    answers,
    behaviour,
    cases,
    config,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    works,
)
from autograder.checks.experiments import causal_mask, near, normal, refuses
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab2_qwen3_block.checks.attention_calls import attention_of
from labs.lab2_qwen3_block.checks.experiments import (
    COUNT,
    WHY,
    attends,
    counts_guessed_heads,
    guesses_width,
    has_one_softmax,
    has_whole_exponents,
    is_turned_back,
    loads_heads,
    norm_is_upside_down,
    repeats_numbers,
    square_counts,
    tables_of,
    takes_tables,
    tells,
    turned_by_heads,
)

TABLES, ATTENTION, MLP = "lab2.rotary_embedding", "lab2.attention", "lab2.mlp"


@behaviour("head_dim_from_hidden", ATTENTION)
@cases("attention_core")
def behaves_guessed_head_dim(student: Student, case: Case) -> bool:
    """Weights of hidden // heads fit; or only a config fits in which that is head_dim."""
    here, heads = case.config, case.config["num_attention_heads"]
    hidden, head_dim = here["hidden_size"], here["head_dim"]
    guess = hidden // heads
    if any(loads_heads(student, here, width, guess) for width in (heads * guess, hidden)):
        return True
    if loads_heads(student, here, heads * head_dim, head_dim):
        return False
    square = {**here, "hidden_size": heads * head_dim}
    return loads_heads(student, square, heads * head_dim, head_dim)


@behaviour("head_dim_from_hidden", TABLES)
@cases("attention_core")
def behaves_guessed_table_width(student: Student, case: Case) -> bool:
    """With 32 = hidden // heads, and head_dim 16, tables are 32 wide, or begin like such ones."""
    settings = {**case.config, "hidden_size": 32 * case.config["num_attention_heads"]}
    tables = student.new("attention.RotaryEmbedding", config(settings))
    angles = np.arange(5)[:, None] / case.config["rope_theta"] ** (np.arange(16) / 16)
    for value in answers(student, lambda: tables(Tensor.of(np.arange(5)))):
        for table in value if isinstance(value, (tuple, list)) else ():
            found = table.array if isinstance(table, Tensor) else np.zeros(0)
            if found.shape[-1:] == (32,):
                return True
            return near(found, np.cos(np.tile(angles[:, :8], 2)))
    return False


@behaviour("theta_fixed", TABLES)
@cases("attention_core")
def behaves_fixed_theta(student: Student, case: Case) -> bool:
    """Another rope_theta gives the same tables, though another head_dim does not."""

    def tables(**changed: Any) -> Any:
        made = student.new("attention.RotaryEmbedding", config({**case.config, **changed}))
        return made(Tensor.of(np.arange(5))).value

    one, other = tables(rope_theta=20_000.0), tables(rope_theta=3_000_000.0)
    shape = (5, case.config["head_dim"])
    same = isinstance(one, (tuple, list)) and (
        all(isinstance(table, Tensor) and table.shape[-2:] == shape for table in one)
        and bool(one == other)
    )
    return same and not has_whole_exponents(student, case)  # to the power of 0, all bases are 1


@behaviour("positions_one_dimensional_only", ATTENTION)
@cases("attention_rotated")
def behaves_flat_positions(student: Student, case: Case) -> bool:
    """Positions [T] are served, the same ones as [B, T] are not."""
    flat = case["positions"].array
    rows = Tensor.of(np.tile(flat, (case["x"].shape[0], 1)))
    served = attends(student, case, position_ids=Tensor.of(flat))
    return served and not attends(student, case, position_ids=rows)


@behaviour("positions_required", ATTENTION)
@cases("attention_core")
def behaves_needed_positions(student: Student, case: Case) -> bool:
    """Positions that are given are served; None raises."""
    positions = Tensor.of(np.arange(case["x"].shape[1]))
    both = {"attention_mask": causal_mask(case), "position_ids": positions}
    masked = {"attention_mask": causal_mask(case)}
    return attends(student, case, **both) and not works(
        student, lambda: attention_of(student, case)(case["x"], **masked)
    )


@behaviour("position_ids_ignored", ATTENTION)
@cases("attention_rotated")
def behaves_deaf_to_positions(student: Student, case: Case) -> bool:
    """The answer is the same whatever the positions are, and not the right one."""

    def same() -> None:
        # New modules: one that keeps the tables of its first call does not ignore positions.
        one, other, third = (attention_of(student, case) for _ in range(3))
        stretched = Tensor.of(case["positions"].array * 3 + 1)
        first = one(case["x"], position_ids=case["positions"])
        expect_same(other(case["x"], position_ids=stretched), first, case, WHY)
        expect_same(third(case["x"]), first, case, WHY)

    settings = {**case.config, "rope_theta": 50.0}

    def unrotated() -> None:
        other = student.new("attention.Qwen3Attention", config(settings), weights=case.weights)
        first = attention_of(student, case)(case["x"])
        expect_same(other(case["x"]), first, case, WHY)

    # Where nothing rotates at all, that is the mistake.
    return works(student, same) and not works(student, unrotated)


@behaviour("mask_required", ATTENTION)
@cases("attention_core")
def behaves_needed_mask(student: Student, case: Case) -> bool:
    """A causal mask that is given is served; None raises."""
    return attends(student, case, causal_mask(case)) and refuses(
        student, lambda: attention_of(student, case)(case["x"])
    )


@behaviour("no_causal_mask", ATTENTION)
@cases("attention_core")
def behaves_without_causality(student: Student, case: Case) -> bool:
    """A causal mask that is given is served; None answers as a mask of zeros does."""

    def sees_all() -> None:
        attention = attention_of(student, case)
        seen = Tensor.of(np.zeros_like(causal_mask(case).array))
        expect_same(attention(case["x"]), attention(case["x"], seen), case, WHY)

    served = attends(student, case, causal_mask(case)) and not attends(student, case)
    return served and works(student, sees_all)


@behaviour("causality_by_positions", ATTENTION)
@cases("attention_rows")
def behaves_by_positions(student: Student, case: Case) -> bool:
    """Repeated positions are served with a causal mask and not with None; rising ones are."""
    mask, repeated = causal_mask(case), case["positions"]

    def rising() -> None:
        attention = attention_of(student, case)
        positions = Tensor.of(np.arange(case["x"].shape[1]) * 3)
        given = attention(case["x"], mask, positions)
        expect_same(attention(case["x"], position_ids=positions), given, case, WHY)

    served = attends(student, case, mask, repeated)
    return served and works(student, rising) and not attends(student, case, position_ids=repeated)


@behaviour("kept_from_first_call", ATTENTION)
@cases("attention_core")
def behaves_as_at_first(student: Student, case: Case) -> bool:
    """Each number of tokens is served by a new module, and not after the other number or after
    as many tokens at other positions.
    """
    whole, short = case["x"], Tensor.of(case["x"].array[:, :5])
    elsewhere = {"position_ids": Tensor.of(np.arange(whole.shape[1]) * 3 + 1)}

    def alone() -> None:
        expect_shape(attention_of(student, case)(short), short.shape, case)

    def after(first: Tensor, second: Tensor, **where: Tensor) -> bool:
        def same() -> None:
            attention, other = attention_of(student, case), attention_of(student, case)
            attention(first, **where)
            expect_same(attention(second), other(second), case, WHY)

        return works(student, same)

    def placed() -> None:
        expect_shape(attention_of(student, case)(whole, **elsewhere), whole.shape, case)

    if not (attends(student, case) and works(student, alone)):
        return False
    if not (after(short, whole) and after(whole, short)):
        return True
    return works(student, placed) and not after(whole, whole, **elsewhere)


@behaviour("kept_from_first_call", TABLES)
@cases("tables_far")
def behaves_as_for_first_positions(student: Student, case: Case) -> bool:
    """Far positions are served by a new module, and not after near ones, fewer or as many."""

    def after(*near_by: int) -> bool:
        def right() -> None:
            tables = student.new("attention.RotaryEmbedding", config(case.config))
            for count in near_by:
                tables(Tensor.of(np.arange(count)))
            found = expect_items(tables(case["positions"]), 2, case)
            for table, name in zip(found, ("cos", "sin"), strict=True):
                expect_close(table, case[name], case, limit=Limit(*case["limits"]))

        return works(student, right)

    return after() and not (after(3) and after(case["positions"].shape[0]))


@behaviour("given_mask_taken_as_boolean", ATTENTION)
@cases("attention_given_mask")
def behaves_boolean_masks(student: Student, case: Case) -> bool:
    """The mask as truth values, of either kind, is served; the additive one is not."""
    seen = case["mask"].array == 0
    boolean = any(attends(student, case, Tensor.of(kind)) for kind in (seen, ~seen))
    return boolean and not attends(student, case, case["mask"])


@behaviour("given_mask_ignored", ATTENTION)
@cases("attention_core")
def behaves_deaf_to_masks(student: Student, case: Case) -> bool:
    """Masks that hide other tokens get the same answer."""

    def same() -> None:
        attention = attention_of(student, case)
        causal = causal_mask(case)
        narrow = causal.array.copy()
        narrow[..., 2:, 0] = np.finfo(np.float32).min
        hidden = attention(case["x"], Tensor.of(narrow))
        expect_same(hidden, attention(case["x"], causal), case, WHY)

    return attends(student, case) and works(student, same)


@behaviour("norm_times_rms", ATTENTION)
@cases("attention_core")
def behaves_norm_upside_down(student: Student, case: Case) -> bool:
    """Twice the projection is like four times the weight of the norm, and not like twice it."""
    return norm_is_upside_down(student, case)


@behaviour("softmax_over_whole_head", ATTENTION)
@cases("attention_uniform")
def behaves_one_softmax(student: Student, case: Case) -> bool:
    """Of equal scores, the weights of all queries together sum to one."""
    return has_one_softmax(student, case)


@behaviour("single_numbers_repeated", "lab2.repeat_kv")
@cases("repeating")
def behaves_repeated_numbers(student: Student, case: Case) -> bool:
    """Each number comes several times in a row."""
    return repeats_numbers(student, case)


@behaviour("table_on_wrong_axis", ATTENTION)
@cases("attention_core")
def behaves_turned_by_heads(student: Student, case: Case) -> bool:
    """Tokens change places with their answers, or only as many tokens as heads are served."""
    return turned_by_heads(student, case)


@behaviour("eps_fixed", ATTENTION)
@cases("attention_core")
def behaves_fixed_eps(student: Student, case: Case) -> bool:
    """What is right for the usual eps is the answer to a large one, too."""

    def same() -> None:
        large = config({**case.config, "rms_norm_eps": 0.5})
        other = student.new("attention.Qwen3Attention", large, weights=case.weights)
        expect_same(other(case["x"]), attention_of(student, case)(case["x"]), case, WHY)

    return attends(student, case) and works(student, same)


@behaviour("table_in_state_dict", ATTENTION)
@cases("attention_core")
def behaves_keeping_tables(student: Student, case: Case) -> bool:
    """The weights fit with one more that has the shape of a table."""
    return takes_tables(student, case)


@behaviour("rotate_half_in_place", "lab2.rotate_half")
@cases("rotate_half")
def behaves_overwritten_input(student: Student, case: Case) -> bool:
    """x holds other numbers after the call."""
    call = partial(student.call, "attention.rotate_half", case["x"], echo=True)
    for value in answers(student, call):
        after = value[1][0]
        return isinstance(after, Tensor) and not near(after.array, case["x"].array)
    return False


@behaviour("interleaved_with_half_split_table", "lab2.rotate_half")
@cases("rotate_half")
def behaves_neighbours_turned(student: Student, case: Case) -> bool:
    """Neighbours are a pair: side by side in the result, or all the first and all the second."""
    x = case["x"].array
    parts = -x[..., 1::2], x[..., ::2]
    beside = np.stack(parts, axis=-1).reshape(x.shape)
    for value in answers(student, lambda: student.call("attention.rotate_half", case["x"])):
        array = value.array if isinstance(value, Tensor) else None
        return near(array, beside, np.concatenate(parts, axis=-1))
    return False


@behaviour("rotate_half_of_another_axis", "lab2.rotate_half")
@cases("rotate_half")
def behaves_turned_across(student: Student, case: Case) -> bool:
    """The halves are those of another axis than the last."""
    x = normal(2, 4, 6, case["x"].shape[-1])

    def turned(axis: int) -> Any:
        first, second = np.split(x, 2, axis)
        return np.concatenate((-second, first), axis)

    for value in answers(student, lambda: student.call("attention.rotate_half", Tensor.of(x))):
        array = value.array if isinstance(value, Tensor) else None
        return near(array, *map(turned, range(3)))
    return False


@behaviour("positions_counted_from_the_first", TABLES)
@cases("attention_core")
def behaves_counting_on(student: Student, case: Case) -> bool:
    """Gaps between positions change nothing, another first position does."""
    one, gaps, later = (tables_of(student, case, *p) for p in ((3, 4, 5), (3, 7, 12), (5, 6, 7)))
    return isinstance(one, (tuple, list)) and bool(one == gaps) and bool(one != later)


@behaviour("positions_moved_to_zero", TABLES)
@cases("attention_core")
def behaves_counting_from_zero(student: Student, case: Case) -> bool:
    """Another first position changes nothing, gaps do."""
    one, gaps, later = (tables_of(student, case, *p) for p in ((3, 4, 5), (3, 7, 12), (5, 6, 7)))
    return isinstance(one, (tuple, list)) and bool(one != gaps) and bool(one == later)


@behaviour("exponents_are_whole_numbers", TABLES)
@cases("attention_core")
def behaves_of_few_frequencies(student: Student, case: Case) -> bool:
    """All pairs but the first turn alike, as if their exponents were 0 or 1."""
    return has_whole_exponents(student, case)


@behaviour("position_ids_ignored", TABLES)
@cases("attention_core")
def behaves_deaf_tables(student: Student, case: Case) -> bool:
    """The tables are the same whatever the positions are, though their rows differ."""
    # Of new modules: one that keeps the tables of its first call does not ignore positions.
    one, other = (tables_of(student, case, *p) for p in (range(5), range(2, 17, 3)))
    if not isinstance(one, (tuple, list)) or one != other:
        return False
    rows = [
        table.array for table in one if isinstance(table, Tensor) and table.shape[-2:-1] == (5,)
    ]
    return bool(rows) and not any(near(table[..., 0, :], table[..., 1, :]) for table in rows)


@behaviour("rope_reversed", "lab2.apply_rotary")
@cases("rotation")
def behaves_turned_back(student: Student, case: Case) -> bool:
    """With cos and sin in each other's place, or the sines of minus the angles, it is right."""
    return is_turned_back(student, case)


@behaviour("rotated_half_used_again", "lab2.apply_rotary")
@cases("rotation")
def behaves_half_turned_twice(student: Student, case: Case) -> bool:
    """One half of q or k is made of the other, which is already turned."""
    halves = [np.split(case[name].array, 2, axis=-1)[0] for name in ("cos", "sin")]
    cos, sin = (half.astype(np.float32) for half in halves)

    def again(x: Tensor) -> list[Any]:
        first, second = np.split(x.array, 2, axis=-1)
        one, other = first * cos - second * sin, second * cos + first * sin
        return [
            np.concatenate((one, second * cos + one * sin), axis=-1),
            np.concatenate((first * cos - other * sin, other), axis=-1),
        ]

    given = case["q"], case["k"]
    rotate = partial(student.call, "attention.apply_rotary_pos_emb", *given)
    for pair in answers(student, lambda: rotate(case["cos"], case["sin"])):
        if isinstance(pair, (tuple, list)) and len(pair) == len(given):
            arrays = (one.array if isinstance(one, Tensor) else None for one in pair)
            return any(near(y, *again(x)) for x, y in zip(given, arrays, strict=True))
    return False


@behaviour("first_row_positions_for_all", "lab2.apply_rotary")
@cases("rotation")
def behaves_one_table_for_all(student: Student, case: Case) -> bool:
    """A table for each row turns all rows as the first one's does."""
    rows = case["row_cos"], case["row_sin"]
    first = [Tensor.of(table.array[0]) for table in rows]

    def same() -> None:
        rotate = partial(student.call, "attention.apply_rotary_pos_emb", case["q"], case["k"])
        (own, _), (one, _) = (expect_items(rotate(*each), 2, case) for each in (rows, first))
        expect_same(own, one, case, WHY)

    return works(student, same)


@behaviour("keys_from_queries", "lab2.apply_rotary")
@cases("rotation")
def behaves_keys_from_queries(student: Student, case: Case) -> bool:
    """Both results are the rotated queries, whatever the keys are."""
    q, *tables = (case[name] for name in ("q", "cos", "sin"))
    rotate = partial(student.call, "attention.apply_rotary_pos_emb")
    for pair in answers(student, lambda: rotate(q, case["k"], *tables)):
        if isinstance(pair, (tuple, list)) and len(pair) == 2:
            one, other = (part.array if isinstance(part, Tensor) else None for part in pair)
            return near(one, other)
    return False


@behaviour("intermediate_size_fixed", MLP)
@cases("mlp_core")
def behaves_guessed_width(student: Student, case: Case) -> bool:
    """Weights of a width that hidden_size tells fit, or of a rounded one."""
    return guesses_width(student, case)


@behaviour("three_axes_only", MLP)
@cases("mlp_flat")
def behaves_three_axes(student: Student, case: Case) -> bool:
    """[1, tokens, hidden] is served, [tokens, hidden] is not."""

    def right(*axes: int) -> bool:
        shape = (*axes, *case["x"].shape)
        mlp = student.new("mlp.Qwen3MLP", config(case.config), weights=case.weights)
        x, y = (Tensor.of(case[name].array.reshape((*axes, *case[name].shape))) for name in "xy")

        def close() -> None:
            expect_close(expect_shape(mlp(x), shape, case), y, case)

        return works(student, close)

    return right(1) and not right()


@behaviour("o_proj_counted_square", "lab2.count_parameters")
@cases("published")
def behaves_square_projection(student: Student, case: Case) -> bool:
    """Of every model, one projection of the queries or both are counted square."""
    return any(tells(student, case, COUNT, wanted) for wanted in square_counts(case))


@behaviour("o_proj_counted_square", "lab2.weight_bytes")
@cases("published")
def behaves_square_bytes(student: Student, case: Case) -> bool:
    """Bytes are those of a square projection."""
    counts = [model["counts"] for model in case["models"]]

    def size(attention: list[int]) -> list[int]:
        pairs = zip(counts, attention, strict=True)
        return [4 * (c["total"] - c["attention"] + made) for c, made in pairs]

    path = "mlp.weight_bytes"
    return any(tells(student, case, path, size(made), "float32") for made in square_counts(case))


@behaviour("count_head_dim_guessed", "lab2.kv_cache_bytes")
@cases("published")
def behaves_guessed_cache(student: Student, case: Case) -> bool:
    """The cache of every model is that of heads of hidden_size // heads."""
    return counts_guessed_heads(student, case)

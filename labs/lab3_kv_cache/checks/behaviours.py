"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from functools import partial

import numpy as np

from autograder.checks.expect import (
    answers,
    behaviour,
    cases,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    works,
)
from autograder.checks.experiments import causal_mask, is_right, near, refuses
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import attention_of, cache_of, sizes, table_of
from labs.lab3_kv_cache.checks.experiments import (
    all_of_both,
    attend,
    cares_about_wv,
    converted,
    feeds,
    first_after_reset,
    gives_back,
    is_right_from,
    is_right_in_pieces,
    lacks_keys_behind,
    loads,
    masks_past_last,
    new_cache,
    overfull,
    permutes,
    projects_all,
    put,
    refusals,
    rotated,
    rotation,
    rounds_elsewhere,
    scaled_by,
    sees_last,
    serves,
    takes_one,
    tensors_of,
    turns_heads,
    values_are_of_wk,
)

CACHE, ATTENTION, FEED_FORWARD = "lab3.kv_cache", "lab3.attention", "lab3.feed_forward"
TABLE, ROTARY, CONVERT = "lab3.freqs_cis", "lab3.apply_rotary", "lab3.convert_hf_mlp"
WHY = Text("the two should agree.", "两者应当一致。")


def _table(student: Student, case: Case) -> list[object]:
    numbers = (case[name] for name in ("head_dim", "end", "theta"))
    return answers(student, partial(student.call, "attention.precompute_freqs_cis", *numbers))


@behaviour("keys_from_queries", ROTARY)
@cases("rotation")
def behaves_keys_from_queries(student: Student, case: Case) -> bool:
    """The queries come out right, and once more in the place of the keys."""
    queries, _ = rotated(case)
    for pair in answers(student, lambda: rotation(student, case)):
        if isinstance(pair, (tuple, list)) and len(pair) == 2:
            return all(isinstance(one, Tensor) and near(one.array, queries) for one in pair)
    return False


@behaviour("pair_not_returned", CACHE)
@cases("keys_and_values")
def behaves_no_pair_of_cache(student: Student, case: Case) -> bool:
    """The right keys and values come otherwise than as two items."""
    tokens = case["k"].shape[1]
    both = [case[name].array for name in "kv"]
    found = answers(student, lambda: put(student, new_cache(student, case), case, 0, tokens))
    return any(all_of_both(value, both) for value in found)


@behaviour("pair_not_returned", ROTARY)
@cases("rotation")
def behaves_no_pair_of_rotation(student: Student, case: Case) -> bool:
    """The rotated queries and keys come otherwise than as two items."""
    found = answers(student, lambda: rotation(student, case))
    return any(all_of_both(value, list(rotated(case))) for value in found)


@behaviour("values_in_place_of_keys", CACHE)
@cases("keys_and_values")
def behaves_values_for_keys(student: Student, case: Case) -> bool:
    """The values come back in the place of the keys, and behind them either of the two."""
    tokens = case["k"].shape[1]
    found = answers(student, lambda: put(student, new_cache(student, case), case, 0, tokens))
    pair = tensors_of(*found)
    keys, values = (case[name].array for name in "kv")
    return len(pair) == 2 and near(pair[0].array, values) and near(pair[1].array, keys, values)


@behaviour("refused_with_other_error", CACHE)
@cases("keys_and_values")
def behaves_other_error(student: Student, case: Case) -> bool:
    """What has no room, or leaves a gap, raises no ValueError but another error."""
    return any(error and not error.is_a("ValueError") for error in refusals(student, case))


@behaviour("refused_without_max_len", CACHE)
@cases("keys_and_values")
def behaves_error_without_number(student: Student, case: Case) -> bool:
    """A full cache raises a ValueError, without max_len in its text."""
    full, _ = refusals(student, case)
    if full is None or not full.is_a("ValueError"):
        return False
    return str(case["size"][1]) not in full.text


@behaviour("one_row_only", CACHE)
@cases("keys_and_values")
def behaves_single_row_of_cache(student: Student, case: Case) -> bool:
    """One sequence comes back as it was, several do not, nor the first one in all rows."""
    several = case["size"][0]
    alone = gives_back(student, case, 1, 1)
    return alone and not any(gives_back(student, case, several, shown) for shown in (several, 1))


@behaviour("one_row_only", ATTENTION)
@cases("attention_core")
def behaves_single_row_of_attention(student: Student, case: Case) -> bool:
    """One sequence is served, several are not."""
    y = Tensor.of(case["y"].array[:1])
    alone = works(student, lambda: expect_close(attend(student, case, rows=1), y, case))
    return alone and not is_right(student, case, lambda: attend(student, case))


@behaviour("mask_required", ATTENTION)
@cases("attention_core")
def behaves_needed_mask(student: Student, case: Case) -> bool:
    """A causal mask that is given is served; None raises."""
    served = is_right(student, case, lambda: attend(student, case, None, causal_mask(case)))
    return served and refuses(student, lambda: attend(student, case))


@behaviour("cache_required", ATTENTION)
@cases("decoding")
def behaves_needed_cache(student: Student, case: Case) -> bool:
    """With a cache it is right; without one it raises, mask or not."""

    def cached() -> Result:
        return attend(student, case, cache_of(student, case), case["mask"])

    without = (partial(attend, student, case, None, *mask) for mask in ((), (case["mask"],)))
    return is_right(student, case, cached) and not answers(student, *without)


@behaviour("heads_repeated_before_cache", ATTENTION)
@cases("decoding")
def behaves_heads_repeated(student: Student, case: Case) -> bool:
    """It is right with a cache for all query heads, and raises with one for the kv heads."""
    heads = case.config["num_attention_heads"]
    wide, narrow = cache_of(student, case, heads=heads), cache_of(student, case)
    served = is_right(student, case, lambda: attend(student, case, wide, case["mask"]))
    return served and not answers(student, lambda: attend(student, case, narrow, case["mask"]))


@behaviour("prompt_not_stored", ATTENTION)
@cases("decoding")
def behaves_prompt_not_stored(student: Student, case: Case) -> bool:
    """The first tokens come out right; the cache does not have them, and refuses the others."""
    x, y, tokens = case["x"].array, case["y"].array, case["x"].shape[1] // 2
    cache, table = cache_of(student, case), table_of(student, case)
    attention = attention_of(student, case, cache)

    def first() -> None:
        got = attention(Tensor.of(x[:, :tokens]), 0, table)
        expect_close(got, Tensor.of(y[:, :tokens]), case)

    kv_heads, head_dim = case.config["num_key_value_heads"], case.config["head_dim"]
    one = Tensor.of(np.zeros((len(x), 1, kv_heads, head_dim), np.float32))
    return works(student, first) and not answers(
        student,
        lambda: student.call(cache, one, one, tokens, method="update"),
        lambda: attention(Tensor.of(x[:, tokens:]), tokens, table),
    )


@behaviour("scale_by_dim", ATTENTION)
@cases("attention_core")
def behaves_scale_by_dim(student: Student, case: Case) -> bool:
    """It is right as soon as the norm of the queries makes up for the root of dim / head_dim."""
    return scaled_by(student, case, sizes(case)[0])


@behaviour("scale_by_another_number", ATTENTION)
@cases("attention_core")
def behaves_scale_by_another_number(student: Student, case: Case) -> bool:
    """The same for a number of heads, tokens or features that is not the size of one head."""
    _, heads, kv_heads, head_dim, _ = sizes(case)
    widths = heads, kv_heads, heads * head_dim, kv_heads * head_dim, case["x"].shape[1]
    others = *widths, heads // kv_heads, head_dim / 2, head_dim**0.5, 1 / head_dim
    return any(scaled_by(student, case, number) for number in others)


@behaviour("eps_left_at_default", ATTENTION)
@cases("attention_core")
def behaves_fixed_eps(student: Student, case: Case) -> bool:
    """Large inputs, where eps plays no part, come out right; small ones as for any other eps."""
    dim, heads, kv_heads, head_dim, _ = sizes(case)

    def like(factor: float, eps: float = 1e-6) -> Result:
        attention = student.new(
            "attention.GroupedQueryAttention", dim, heads, kv_heads, head_dim, eps, None,
            weights=case.weights,
        )  # fmt: skip
        x = Tensor.of(case["x"].array * np.float32(factor))
        return attention(x, 0, table_of(student, case))

    def same() -> None:
        expect_close(like(1e3), Tensor.of(case["y"].array * np.float32(1e3)), case)
        expect_same(like(1e-2, 0.5), like(1e-2), case, WHY)

    return works(student, same)


@behaviour("base_fixed", TABLE)
@cases("freqs")
def behaves_fixed_theta(student: Student, case: Case) -> bool:
    """Another theta gives the same table, whose first pair turns by one radian a position."""

    def table(theta: float) -> Result:
        numbers = case["head_dim"], case["end"], theta
        made = student.new("attention.precompute_freqs_cis", *numbers)
        return student.call("torch.view_as_real", made)

    def same() -> None:
        one, shape = table(20_000.0), (*case["cos"].shape, 2)
        first = expect_shape(one, shape, case).array[:, 0]
        places = np.arange(case["end"])
        turned = np.stack((np.cos(places), np.sin(places)), -1)
        expect_close(Tensor.of(first), Tensor.of(turned.astype(np.float32)), case)
        expect_same(table(3_000_000.0), one, case, WHY)

    return works(student, same)


@behaviour("head_dim_from_dim", ATTENTION)
@cases("attention_core")
def behaves_guessed_head_dim(student: Student, case: Case) -> bool:
    """Weights of dim // n_heads fit, where those of head_dim do not."""
    dim, heads, _, head_dim, _ = sizes(case)
    guess = dim // heads
    return not loads(student, case, heads * head_dim, head_dim) and any(
        loads(student, case, width, guess) for width in (heads * guess, dim)
    )


@behaviour("norm_over_projection", ATTENTION)
@cases("attention_core")
def behaves_norm_over_projection(student: Student, case: Case) -> bool:
    """Norm weights over all heads fit, where those of head_dim do not."""
    _, heads, kv_heads, head_dim, _ = sizes(case)
    width, narrow = heads * head_dim, kv_heads * head_dim
    return not loads(student, case, width, head_dim) and loads(
        student, case, width, head_dim, width, narrow
    )


@behaviour("causal_offset_from_start_pos", ATTENTION)
@cases("attention_later")
def behaves_causal_offset(student: Student, case: Case) -> bool:
    """Right from 0 on, and from elsewhere once the causal mask is given; not without it.

    Even there the first token does not see the last one, as it would without any mask.
    """
    start, mask = case["start"], causal_mask(case)
    given = is_right_from(student, case, 0) and is_right_from(student, case, start, mask)
    return given and not is_right_from(student, case, start) and not sees_last(student, case)


@behaviour("values_from_wk", ATTENTION)
@cases("attention_token_heads")
def behaves_values_from_wk(student: Student, case: Case) -> bool:
    """A single token goes through wk and wo; several do not care about wv."""
    return values_are_of_wk(student, case) and not cares_about_wv(student, case)


@behaviour("projected_all_over", ATTENTION)
@cases("decoding")
def behaves_projected_all_over(student: Student, case: Case) -> bool:
    """The last step is right, and sends every token through wk or wv once more."""
    return projects_all(student, case, "wk", "wv")


@behaviour("norm_weights_not_permuted", "lab3.permute")
@cases("permuting")
def behaves_matrices_only(student: Student, case: Case) -> bool:
    """A matrix is permuted, a column of it, with one axis, is not."""
    rows, heads, head_dim = case["weight"].shape[0], case["heads"], case["head_dim"]
    matrix = permutes(student, case, rows, heads)
    return matrix and not permutes(student, case, head_dim, 1, 0)


@behaviour("table_complex128", TABLE)
@cases("freqs")
def behaves_wide_table(student: Student, case: Case) -> bool:
    """The table's numbers are complex128."""
    return any("complex128" in repr(value) for value in _table(student, case))


@behaviour("table_of_real_numbers", TABLE)
@cases("freqs")
def behaves_real_table(student: Student, case: Case) -> bool:
    """Real tensors come back, one or several, and nothing that is complex."""
    values = _table(student, case)
    return any(isinstance(value, Tensor) for value in values) or bool(tensors_of(*values))


@behaviour("angles_by_head", ROTARY)
@cases("rotation")
def behaves_angles_by_head(student: Student, case: Case) -> bool:
    """With as many heads as tokens, every head has its angle, and every token has all of them."""
    return turns_heads(student, case)


@behaviour("pairs_left_apart", ROTARY)
@cases("rotation")
def behaves_pairs_apart(student: Student, case: Case) -> bool:
    """The right numbers come as [..., head_dim/2, 2]."""
    found = tensors_of(*answers(student, lambda: rotation(student, case)))
    wanted = [one.reshape(*one.shape[:-1], -1, 2) for one in rotated(case)]
    return any(near(one.array, *wanted) for one in found)


@behaviour("overflow_dropped", CACHE)
@cases("keys_and_values")
def behaves_overflow_dropped(student: Student, case: Case) -> bool:
    """Tokens beyond max_len raise nothing, and the first token is there, if any comes back."""
    found, max_len = overfull(student, case), case["size"][1]
    held = (
        one is None or (one.shape[1] <= max_len and near(one[:, :1], -1 + 0 * one[:, :1]))
        for one in found
    )
    return bool(found) and all(held)


@behaviour("oldest_pushed_out", CACHE)
@cases("keys_and_values")
def behaves_oldest_pushed_out(student: Student, case: Case) -> bool:
    """Tokens beyond max_len stand last, and the first token is there no more."""
    found, max_len = overfull(student, case), case["size"][1]
    return bool(found) and all(
        one is not None
        and one.shape[1] <= max_len
        and (one[:, -1] == 9).all()
        and not (one[:, 0] == -1).any()
        for one in found
    )


@behaviour("reset_keeps_count", CACHE)
@cases("keys_and_values")
def behaves_reset_keeps_count(student: Student, case: Case) -> bool:
    """After reset a token is taken at 1, behind one that is not the old one."""
    first = first_after_reset(student, case)
    old = np.stack([case[name].array[:, 0] for name in "kv"])
    return first is not None and not near(first, old)


@behaviour("going_back_refused", CACHE)
@cases("keys_and_values")
def behaves_going_back_refused(student: Student, case: Case) -> bool:
    """Piece after piece is taken; the last token but one, once more, is not."""
    cache, (first, second, _) = new_cache(student, case), case["pieces"]
    pieces = [put(student, cache, case, 0, first), put(student, cache, case, first, first + second)]
    served = works(student, lambda: [expect_items(piece, 2, case) for piece in pieces])
    return served and not answers(student, lambda: put(student, cache, case, first, first + 1))


@behaviour("room_by_what_is_held", CACHE)
@cases("keys_and_values")
def behaves_room_by_what_is_held(student: Student, case: Case) -> bool:
    """One token may be replaced; all of them, which fit as well, may not."""
    cache, tokens = new_cache(student, case), case["k"].shape[1]
    served = works(student, lambda: expect_items(put(student, cache, case, 0, tokens), 2, case))
    replaced = served and takes_one(student, cache, case, tokens - 1)
    return replaced and not answers(student, lambda: put(student, cache, case, 0, tokens))


@behaviour("full_one_too_early", CACHE)
@cases("keys_and_values")
def behaves_full_too_early(student: Student, case: Case) -> bool:
    """All tokens but one of max_len fit, all of them do not."""
    max_len = case["size"][1]
    whole = [np.tile(case[name].array, (1, 2, 1, 1))[:, :max_len] for name in "kv"]

    def fits(count: int) -> bool:
        pair = (Tensor.of(one[:, :count]) for one in whole)
        cache = new_cache(student, case)
        return bool(answers(student, lambda: student.call(cache, *pair, 0, method="update")))

    return fits(max_len - 1) and not fits(max_len)


@behaviour("mask_axes_fixed", ATTENTION)
@cases("attention_plain_mask")
def behaves_fixed_mask_axes(student: Student, case: Case) -> bool:
    """A mask of its own for every sequence is served, [T, T] is not; or the other way round."""
    plain = case["mask"].array
    each = np.tile(plain, (len(case["x"].array), 1, 1, 1))
    each[0] = 0
    return serves(student, case, each, 1) is not serves(student, case, plain, 1)


@behaviour("given_mask_inverted", ATTENTION)
@cases("attention_given_mask")
def behaves_inverted_mask(student: Student, case: Case) -> bool:
    """Right with ones for what may be seen and zeros for the rest, and wrong as promised."""
    mask = case["mask"].array
    return serves(student, case, mask == 0) and not serves(student, case, mask)


@behaviour("mask_columns_exchanged", ATTENTION)
@cases("decoding")
def behaves_mask_columns(student: Student, case: Case) -> bool:
    """A later piece is right with a mask given; without, as if the past stood behind it there."""
    return is_right_in_pieces(student, case) and masks_past_last(student, case)


@behaviour("table_not_cut", ATTENTION)
@cases("attention_core")
def behaves_table_not_cut(student: Student, case: Case) -> bool:
    """A table of as many rows as tokens is served, a longer one raises."""
    rows = slice(case["x"].shape[1])

    def exact() -> Result:
        return attention_of(student, case)(case["x"], 0, table_of(student, case, rows=rows))

    return is_right(student, case, exact) and not answers(student, lambda: attend(student, case))


@behaviour("output_not_projected", ATTENTION)
@cases("attention_core")
def behaves_no_output_projection(student: Student, case: Case) -> bool:
    """What comes back is right as soon as it has gone through wo."""
    wo = case.weights["wo.weight"].array
    found = (
        one for one in answers(student, lambda: attend(student, case)) if isinstance(one, Tensor)
    )
    return any(
        one.shape[-1] == wo.shape[1] and near(one.array @ wo.T, case["y"].array) for one in found
    )


@behaviour("width_rounded_elsewhere", "lab3.feed_forward_size")
@cases("sizes_plain")
def behaves_rounded_elsewhere(student: Student, case: Case) -> bool:
    """Right where no fraction arises, a little off where one does."""
    return rounds_elsewhere(student)


@behaviour("three_axes_only", FEED_FORWARD)
@cases("mlp_flat")
def behaves_three_axes(student: Student, case: Case) -> bool:
    """[1, tokens, dim] is served, [tokens, dim] is not."""
    return feeds(student, case, 1) and not feeds(student, case)


@behaviour("old_names_kept", CONVERT)
@cases("converting_bare")
def behaves_old_names_kept(student: Student, case: Case) -> bool:
    """The new names are there, and so are the old ones."""
    before, after = converted(student, case)
    return after == before | {"w1.weight", "w2.weight", "w3.weight"}


@behaviour("other_names_converted", CONVERT)
@cases("converting")
def behaves_other_names_converted(student: Student, case: Case) -> bool:
    """The three have their new names, the norms have kept theirs; the scale has not."""
    before, after = converted(student, case)
    kept = {name for name in before if "_proj" not in name}
    new = {f"{case['prefix']}{name}.weight" for name in ("w1", "w2", "w3")}
    return kept | new <= after and f"{case['prefix']}gate_proj.weight_scale" not in after


@behaviour("prefill_token_by_token", "lab3.flops")
@cases("flops")
def behaves_steps_for_prompt(student: Student, case: Case) -> bool:
    """A prompt of ten tokens lacks the products of its queries with the keys behind them."""
    return lacks_keys_behind(student, case["models"][0]["config"])

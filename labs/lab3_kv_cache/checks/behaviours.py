"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    StudentError,
    answers,
    behaviour,
    cases,
    expect_close,
    expect_items,
    expect_same,
    expect_shape,
    works,
)
from autograder.checks.experiments import causal_mask, is_beside, is_right, near
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import attention_of, cache_of, sizes, table_of

CACHE, ATTENTION, FEED_FORWARD = "lab3.kv_cache", "lab3.attention", "lab3.feed_forward"
ROTARY = "lab3.apply_rotary"
WHY = Text("the two should agree.", "两者应当一致。")


def _attend(
    student: Student,
    case: Case,
    cache: Handle | None = None,
    *mask: Tensor,
    rows: int | None = None,
) -> Result:
    """The answer to the whole input, or to so many sequences of it, from position 0 on."""
    x = Tensor.of(case["x"].array[:rows])
    return attention_of(student, case, cache)(x, 0, table_of(student, case), *mask)


def _feed(student: Student, case: Case) -> Result:
    return student.new("mlp.FeedForward", case["dim"], case["width"], weights=case.weights)(
        case["x"]
    )


def _cache(student: Student, case: Case, batch: int | None = None) -> Handle:
    sizes = (batch or case["size"][0], *case["size"][1:])
    return student.new("attention.KVCache", *sizes, Dtype("float32"))


def _put(
    student: Student, cache: Handle, case: Case, first: int, end: int, rows: int | None = None
) -> Result:
    """Store tokens of the case (of so many sequences) at their place."""
    pair = (Tensor.of(case[name].array[:rows, first:end]) for name in "kv")
    return student.call(cache, *pair, first, method="update")


def _rotated(case: Case) -> Iterator[NDArray[np.float64]]:
    """The rotated xq and xk."""
    turn = (case["cos"].array + 1j * case["sin"].array.astype(np.float64))[:, None, :]
    for name in "qk":
        pairs = case[name].array.astype(np.float64)
        points = (pairs[..., ::2] + 1j * pairs[..., 1::2]) * turn
        yield np.stack((points.real, points.imag), -1).reshape(pairs.shape)


@behaviour("tuple_returned", ATTENTION)
@cases("attention_core")
def behaves_tuple_of_attention(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return is_beside(student, case, lambda: _attend(student, case))


@behaviour("tuple_returned", FEED_FORWARD)
@cases("mlp_core")
def behaves_tuple_of_feed_forward(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return is_beside(student, case, lambda: _feed(student, case))


@behaviour("nothing_returned", "lab3.freqs_cis")
@cases("freqs")
def behaves_silent_table(student: Student, case: Case) -> bool:
    """The call gives None."""
    given = (case[name] for name in ("head_dim", "end", "theta"))
    return None in answers(student, partial(student.call, "attention.precompute_freqs_cis", *given))


@behaviour("nothing_returned", ROTARY)
@cases("rotation")
def behaves_silent_rotation(student: Student, case: Case) -> bool:
    """The call gives None, or a pair with None in it."""
    found = answers(student, lambda: _rotation(student, case))
    return None in found or any(isinstance(pair, (tuple, list)) and None in pair for pair in found)


def _rotation(student: Student, case: Case) -> Result:
    table = table_of(student, case)
    return student.call("attention.apply_rotary_emb", case["q"], case["k"], table)


@behaviour("keys_from_queries", ROTARY)
@cases("rotation")
def behaves_keys_from_queries(student: Student, case: Case) -> bool:
    """The queries come out right, and once more in the place of the keys."""
    queries, _ = _rotated(case)
    for pair in answers(student, lambda: _rotation(student, case)):
        if isinstance(pair, (tuple, list)) and len(pair) == 2:
            return all(isinstance(one, Tensor) and near(one.array, queries) for one in pair)
    return False


@behaviour("nothing_returned", "lab3.permute")
@cases("permuting")
def behaves_silent_permutation(student: Student, case: Case) -> bool:
    """The call gives None, for a matrix or for the weight of a norm."""
    numbers = case["head_dim"]
    given = (
        (case["weight"], case["heads"], numbers),
        (Tensor.of(case["weight"].array[:numbers, 0]), 1, numbers),
    )
    calls = (partial(student.call, "attention.permute_for_complex", *some) for some in given)
    return None in answers(student, *calls)


@behaviour("nothing_returned", CACHE)
@cases("keys_and_values")
def behaves_silent_cache(student: Student, case: Case) -> bool:
    """A first call of update, or a second one, gives None."""
    first, second, _ = case["pieces"]
    cache = _cache(student, case)
    calls = ((0, first), (first, first + second), (first + second, first + second + 1))
    return None in answers(student, *(partial(_put, student, cache, case, *at) for at in calls))


@behaviour("nothing_returned", ATTENTION)
@cases("decoding")
def behaves_silent_attention(student: Student, case: Case) -> bool:
    """A call gives None, without a mask, with one, or with a cache."""

    def cached() -> Result:
        return _attend(student, case, cache_of(student, case))

    masked = partial(_attend, student, case, None, case["mask"])
    return None in answers(student, lambda: _attend(student, case), masked, cached)


@behaviour("nothing_returned", FEED_FORWARD)
@cases("mlp_core")
def behaves_silent_feed_forward(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, lambda: _feed(student, case))


@behaviour("nothing_returned", "lab3.convert_hf_mlp")
@cases("converting")
def behaves_silent_conversion(student: Student, case: Case) -> bool:
    """The call gives None."""
    call = partial(student.call, "mlp.convert_hf_mlp", case.group("in."))
    return None in answers(student, call)


def _all_of_both(value: Any, both: Sequence[NDArray[Any]]) -> bool:
    """Whether a value that is no pair holds the numbers of both tensors."""
    if isinstance(value, Tensor):
        got, want = value.array, np.concatenate([one.reshape(-1) for one in both])
        return got.size == want.size and np.allclose(
            np.sort(got, None), np.sort(want), rtol=1e-4, atol=1e-5
        )
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, (tuple, list)) or (len(items) == 2 and items is value):
        return False
    found = [item.array for item in items if isinstance(item, Tensor)]
    return all(
        any(g.shape == want.shape and np.allclose(g, want, rtol=1e-4, atol=1e-5) for g in found)
        for want in both
    )


@behaviour("pair_not_returned", CACHE)
@cases("keys_and_values")
def behaves_no_pair_of_cache(student: Student, case: Case) -> bool:
    """The right keys and values come otherwise than as two items."""
    tokens = case["k"].shape[1]
    both = [case[name].array for name in "kv"]
    found = answers(student, lambda: _put(student, _cache(student, case), case, 0, tokens))
    return any(_all_of_both(value, both) for value in found)


@behaviour("pair_not_returned", ROTARY)
@cases("rotation")
def behaves_no_pair_of_rotation(student: Student, case: Case) -> bool:
    """The rotated queries and keys come otherwise than as two items."""
    found = answers(student, lambda: _rotation(student, case))
    return any(_all_of_both(value, list(_rotated(case))) for value in found)


def _refusals(student: Student, case: Case) -> list[StudentError]:
    """What a full cache raises at one token more, and one with a gap; both served before."""
    tokens, max_len = case["k"].shape[1], case["size"][1]
    pair = [np.tile(case[name].array, (1, 2, 1, 1))[:, :max_len] for name in "kv"]
    full, gap = _cache(student, case), _cache(student, case)
    whole = student.call(full, *map(Tensor.of, pair), 0, method="update")
    part = _put(student, gap, case, 0, tokens)
    served = works(student, lambda: (expect_items(whole, 2, case), expect_items(part, 2, case)))
    if not served:
        return []
    found = []
    more = [Tensor.of(one[:, :1]) for one in pair]
    for cache, start in ((full, max_len), (gap, tokens + 2)):
        student.call(cache, *more, start, method="update")
        try:
            student.flush()
        except StudentError as error:
            found.append(error)
    return found


@behaviour("values_in_place_of_keys", CACHE)
@cases("keys_and_values")
def behaves_values_for_keys(student: Student, case: Case) -> bool:
    """The values come back, and once more in the place of the keys."""
    tokens = case["k"].shape[1]
    for pair in answers(student, lambda: _put(student, _cache(student, case), case, 0, tokens)):
        if isinstance(pair, (tuple, list)) and len(pair) == 2:
            held = case["v"].array
            return all(isinstance(one, Tensor) and near(one.array, held) for one in pair)
    return False


@behaviour("refused_with_other_error", CACHE)
@cases("keys_and_values")
def behaves_other_error(student: Student, case: Case) -> bool:
    """What has no room, or leaves a gap, raises no ValueError but another error."""
    return any(error.type != "ValueError" for error in _refusals(student, case))


@behaviour("refused_without_max_len", CACHE)
@cases("keys_and_values")
def behaves_error_without_number(student: Student, case: Case) -> bool:
    """A full cache raises a ValueError, without max_len in its text."""
    first, *_ = [*_refusals(student, case), None]
    if first is None or first.type != "ValueError" or "gap" in first.text:
        return False
    return str(case["size"][1]) not in first.text


@behaviour("one_row_only", CACHE)
@cases("keys_and_values")
def behaves_single_row_of_cache(student: Student, case: Case) -> bool:
    """One sequence comes back as it was, several do not, nor the first one in all rows."""
    tokens, several = case["k"].shape[1], case["size"][0]

    def gives(rows: int, shown: int) -> bool:
        def same() -> None:
            pair = expect_items(
                _put(student, _cache(student, case, rows), case, 0, tokens, rows), 2, case
            )
            for item, name in zip(pair, "kv", strict=True):
                held = case[name].array[:shown]
                wanted = np.broadcast_to(held, (rows, *held.shape[1:]))
                expect_close(item, Tensor.of(wanted), case)

        return works(student, same)

    return gives(1, 1) and not gives(several, several) and not gives(several, 1)


@behaviour("one_row_only", ATTENTION)
@cases("attention_core")
def behaves_single_row_of_attention(student: Student, case: Case) -> bool:
    """One sequence is served, several are not."""
    y = Tensor.of(case["y"].array[:1])
    alone = works(student, lambda: expect_close(_attend(student, case, rows=1), y, case))
    return alone and not is_right(student, case, lambda: _attend(student, case))


@behaviour("mask_required", ATTENTION)
@cases("attention_core")
def behaves_needed_mask(student: Student, case: Case) -> bool:
    """A causal mask that is given is served; None raises."""
    served = is_right(student, case, lambda: _attend(student, case, None, causal_mask(case)))
    return served and not answers(student, lambda: _attend(student, case))


@behaviour("cache_required", ATTENTION)
@cases("decoding")
def behaves_needed_cache(student: Student, case: Case) -> bool:
    """With a cache it is right; without one it raises, mask or not."""

    def cached() -> Result:
        return _attend(student, case, cache_of(student, case), case["mask"])

    without = (partial(_attend, student, case, None, *mask) for mask in ((), (case["mask"],)))
    return is_right(student, case, cached) and not answers(student, *without)


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
    dim, *_, head_dim, _ = sizes(case)
    norm = case.weights["q_norm.weight"].array * np.float32((dim / head_dim) ** 0.5)

    def made_up(**changed: Tensor) -> Result:
        attention = attention_of(student, case, changed=changed)
        return attention(case["x"], case["start"], table_of(student, case))

    changed = {"q_norm.weight": Tensor.of(norm)}
    return is_right(student, case, lambda: made_up(**changed)) and not is_right(
        student, case, made_up
    )


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


@behaviour("base_fixed", "lab3.freqs_cis")
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
    dim, heads, kv_heads, head_dim, eps = sizes(case)

    def loads(width: int, head: int) -> bool:
        narrow = (kv_heads * head, dim)
        shapes = {
            "wq": (width, dim), "wk": narrow, "wv": narrow, "wo": (dim, width),
            "q_norm": (head,), "k_norm": (head,),
        }  # fmt: skip
        weights = {
            f"{name}.weight": Tensor.of(np.zeros(shape, np.float32))
            for name, shape in shapes.items()
        }
        given = dim, heads, kv_heads, head_dim, eps, None
        path = "attention.GroupedQueryAttention"
        return works(student, lambda: student.new(path, *given, weights=weights))

    guess = dim // heads
    return not loads(heads * head_dim, head_dim) and any(
        loads(width, guess) for width in (heads * guess, dim)
    )

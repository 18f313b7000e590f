"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    Literal,
    answers,
    behaviour,
    cases,
    expect_close,
    expect_same,
    works,
)
from autograder.checks.experiments import is_right, near, normal, refuses
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab1_foundations.checks.calls import THREE_ROUNDINGS, made, widened
from labs.lab1_foundations.checks.token_calls import tokenizer

ATTENTION, MULTI_HEAD = "lab1.attention", "lab1.multi_head"
LAYER_NORM, RMS_NORM, FEED_FORWARD = "lab1.layer_norm", "lab1.rms_norm", "lab1.feed_forward"
WHY = Text("the two should agree.", "两者应当一致。")
CLASSES = {LAYER_NORM: "mlp.LayerNorm", RMS_NORM: "mlp.RMSNorm", FEED_FORWARD: "mlp.FeedForward"}


def _attend(student: Student, case: Case, *mask: Tensor) -> Result:
    given = (case[name] for name in "qkv")
    return student.call("attention.scaled_dot_product_attention", *given, *mask)


def _heads(student: Student, case: Case, *mask: Tensor) -> Result:
    return made(student, "attention.MultiHeadAttention", case)(case["x"], *mask)


def _module(student: Student, exercise: str, case: Case, x: Tensor | None = None) -> Result:
    return made(student, CLASSES[exercise], case)(case["x"] if x is None else x)


@behaviour("softmax_minus_magnitude", "lab1.softmax")
@cases("softmax_large")
def behaves_magnitude_subtracted(student: Student, case: Case) -> bool:
    """Logits near 10,000 are right; all those near -10,000 give nothing that is a number."""

    def shares(level: float) -> NDArray[np.float64] | None:
        row = Tensor.of(np.array([[level, level + 1]], np.float32))
        found = answers(student, lambda: student.call("attention.softmax", row, -1))
        return found[0].array if found and isinstance(found[0], Tensor) else None

    low = shares(-1e4)
    return near(shares(1e4), [[0.26894, 0.73106]]) and low is not None and bool(np.isnan(low).all())


@behaviour("softmax_not_widened", "lab1.softmax")
@cases("softmax_ahead_bfloat16")
def behaves_narrow_softmax(student: Student, case: Case) -> bool:
    """Small weights are right in float32, and off by more than rounding in bfloat16."""
    want, small = case["y"].array, case["small"].array

    def off(x: Tensor) -> float:
        """By how much the worst of them is off, relative; 1 where there is no answer."""
        found = answers(student, lambda: student.call("attention.softmax", x, -1))
        if not found or not isinstance(found[0], Tensor) or found[0].shape != want.shape:
            return 1.0
        return float(np.abs(found[0].array[small] / want[small] - 1).max())

    narrow = off(case["x"])
    return off(widened(case["x"])) < 1e-3 and THREE_ROUNDINGS["bfloat16"] < narrow < 0.06


@behaviour("mask_required", ATTENTION)
@cases("attention_hidden")
def behaves_needed_mask(student: Student, case: Case) -> bool:
    """A mask that is given is served; None raises."""
    served = is_right(student, case, lambda: _attend(student, case, case["mask"]))
    return served and refuses(student, lambda: _attend(student, case))


@behaviour("mask_required", MULTI_HEAD)
@cases("multi_head_causal")
def behaves_needed_mask_of_heads(student: Student, case: Case) -> bool:
    """A mask that is given is served; None raises, and not because attention gives nothing."""
    qkv = [case["x"]] * 3
    plain = partial(student.call, "attention.scaled_dot_product_attention", *qkv)
    served = is_right(student, case, lambda: _heads(student, case, case["mask"]))
    return (
        served
        and refuses(student, lambda: _heads(student, case))
        and (None not in answers(student, plain))
    )


@behaviour("bool_masks_only", ATTENTION)
@cases("attention_hidden")
def behaves_bool_masks(student: Student, case: Case) -> bool:
    """A bool mask is served; the additive one that says the same raises."""
    added = Tensor.of(np.where(case["mask"].array, 0, -np.inf).astype(np.float32))
    served = is_right(student, case, lambda: _attend(student, case, case["mask"]))
    return served and not answers(student, lambda: _attend(student, case, added))


def _read_as_bool(student: Student, case: Case, call: Callable[[Tensor], Result]) -> bool:
    """bool masks are served, and of an additive one only what is 0 counts, or only what is not."""
    tokens = case["mask"].shape[-1]
    odd = np.add.outer(np.arange(case["mask"].shape[-2]), np.arange(tokens)) % 2 > 0
    added = Tensor.of(np.where(odd, normal(*odd.shape), np.float32(0)))

    def same(shown: NDArray[np.bool_]) -> None:
        expect_same(call(added), call(Tensor.of(shown)), case, WHY)

    served = is_right(student, case, lambda: call(case["mask"]))
    return served and any(works(student, partial(same, shown)) for shown in (odd, ~odd))


@behaviour("additive_counts_as_bool", ATTENTION)
@cases("attention_hidden")
def behaves_truth_in_attention(student: Student, case: Case) -> bool:
    """A mask of floats does what its truth values do."""
    return _read_as_bool(student, case, partial(_attend, student, case))


@behaviour("additive_counts_as_bool", MULTI_HEAD)
@cases("multi_head_causal")
def behaves_truth_in_heads(student: Student, case: Case) -> bool:
    """A mask of floats does what its truth values do."""
    return _read_as_bool(student, case, partial(_heads, student, case))


@behaviour("mask_heads_taken_for_batch", MULTI_HEAD)
@cases("multi_head_causal")
def behaves_mask_by_sequence(student: Student, case: Case) -> bool:
    """With as many sequences as heads, the first of three axes counts sequences, not heads."""
    hidden, heads, _ = case["sizes"]
    tokens = case["mask"].shape[-1]
    x, mask = Tensor.of(normal(heads, tokens, hidden)), normal(heads, tokens, tokens, seed=1) > 0
    mask |= np.eye(tokens, dtype=bool)
    three, by_sequence, by_head = (
        made(student, "attention.MultiHeadAttention", case)(x, Tensor.of(shape))
        for shape in (mask, mask[:, None], mask[None])
    )

    def same(other: Result) -> None:
        expect_same(three, other, case, WHY)

    return works(student, lambda: same(by_sequence)) and not works(student, lambda: same(by_head))


@behaviour("mask_of_heads_beside_one_head", MULTI_HEAD)
@cases("multi_head_masks")
def behaves_one_head(student: Student, case: Case) -> bool:
    """Without a mask [B, T, hidden] comes out, and with [B, 1, 1, T] an axis of that mask, too."""
    plain, masked = (
        answers(student, partial(_heads, student, case, *m)) for m in ((), (case["mask"],))
    )
    shape = case["x"].shape
    both = [one.shape for one in (*plain, *masked) if isinstance(one, Tensor)]
    return both == [shape, (shape[0], *shape)]


@behaviour("four_axes_taken_for_granted", ATTENTION)
@cases("attention_core")
def behaves_four_axes(student: Student, case: Case) -> bool:
    """[B, heads, T, d] is served; two axes and five are not."""

    def right(*at: int | slice | None) -> bool:
        q, k, v, y = (Tensor.of(np.ascontiguousarray(case[name].array[at])) for name in "qkvy")
        call = partial(student.call, "attention.scaled_dot_product_attention", q, k, v)
        return works(student, lambda: expect_close(call(), y, case))

    return right() and not right(0, 0) and not right(slice(None), None)


def _deaf_to_eps(student: Student, case: Case, exercise: str) -> bool:
    """Large inputs, where eps plays no part, are normed; small ones are as for any other eps."""
    x = case["x"].array.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True) if exercise == LAYER_NORM else x
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True))
    bias = case.weights["bias"].array if exercise == LAYER_NORM else 0
    want = Tensor.of((normed * case.weights["weight"].array + bias).astype(np.float32))

    def like(factor: float, times: float = 1.0) -> Result:
        module = made(student, CLASSES[exercise], case, eps_times=times)
        return module(Tensor.of(case["x"].array * np.float32(factor)))

    def same() -> None:
        expect_close(like(1e4), want, case)
        expect_close(like(0), Tensor.of(np.zeros_like(want.array) + np.float32(bias)), case)
        expect_same(like(1e-2, 1e5), like(1e-2), case, WHY)

    return works(student, same)


@behaviour("layer_norm_fixed_eps", LAYER_NORM)
@cases("layer_norm_core")
def behaves_fixed_eps_of_layer_norm(student: Student, case: Case) -> bool:
    """Another eps changes nothing."""
    return _deaf_to_eps(student, case, LAYER_NORM)


@behaviour("rms_norm_fixed_eps", RMS_NORM)
@cases("rms_norm_core")
def behaves_fixed_eps_of_rms_norm(student: Student, case: Case) -> bool:
    """Another eps changes nothing."""
    return _deaf_to_eps(student, case, RMS_NORM)


@behaviour("rms_norm_one_plus_weight", RMS_NORM)
@cases("rms_norm_core")
def behaves_one_plus_weight(student: Student, case: Case) -> bool:
    """What is normed is multiplied by 1 + weight."""
    weight = case.weights["weight"].array
    want = Tensor.of(case["y"].array / weight * (1 + weight))
    return works(student, lambda: expect_close(_module(student, RMS_NORM, case), want, case))


def _three_axes(student: Student, case: Case, exercise: str) -> bool:
    """[batch, tokens, size] is served; one, two and four axes are not."""

    def right(*at: int | None) -> bool:
        x, y = (Tensor.of(case[name].array[at]) for name in "xy")
        return works(student, lambda: expect_close(_module(student, exercise, case, x), y, case))

    return right() and not any((right(0, 0), right(0), right(None)))


@behaviour("three_axes_only", LAYER_NORM)
@cases("layer_norm_core")
def behaves_three_axes_of_layer_norm(student: Student, case: Case) -> bool:
    """Three axes are served, other numbers are not."""
    return _three_axes(student, case, LAYER_NORM)


@behaviour("three_axes_only", RMS_NORM)
@cases("rms_norm_core")
def behaves_three_axes_of_rms_norm(student: Student, case: Case) -> bool:
    """Three axes are served, other numbers are not."""
    return _three_axes(student, case, RMS_NORM)


@behaviour("three_axes_only", FEED_FORWARD)
@cases("feed_forward_core")
def behaves_three_axes_of_feed_forward(student: Student, case: Case) -> bool:
    """Three axes are served, other numbers are not."""
    return _three_axes(student, case, FEED_FORWARD)


@behaviour("bool_mask_without_effect", ATTENTION)
@cases("attention_hidden")
def behaves_idle_bool_mask(student: Student, case: Case) -> bool:
    """A bool mask gives what no mask gives; the additive one that says the same is served."""
    added = Tensor.of(np.where(case["mask"].array, 0, -np.inf).astype(np.float32))
    plain = [one for one in answers(student, lambda: _attend(student, case)) if one is not None]
    served = is_right(student, case, lambda: _attend(student, case, added))
    return served and any(
        works(
            student,
            partial(expect_same, _attend(student, case, case["mask"]), one, case, WHY),
        )
        for one in plain
    )


# Text and places.

HALVES = [b"a\xc3", b"\xa9"]  # two tokens that are "a" and "é"


@behaviour("all_held_while_one_is_open", "lab1.stream")
@cases("stream_plain")
def behaves_all_held(student: Student, case: Case) -> bool:
    """An a that comes with half of a character waits for the other half."""
    vocab = Literal({token: number for number, token in enumerate(HALVES)})
    stream = student.new(
        "tokens.StreamDecoder", student.new("tokens.Tokenizer", vocab, Literal([]))
    )
    pushes = (partial(student.call, stream, number, method="push") for number in (0, 1))
    return answers(student, *pushes) == ["", "aé"]


@behaviour("thoughts_to_the_first_end", "lab1.chat_template")
@cases("chat_short")
def behaves_second_thought(student: Student, case: Case) -> bool:
    """Behind two ends of thinking the answer is kept, or not, and what stands between them is."""
    said = Literal([{"role": "assistant", "content": "first</think>second</think>third"}])
    rendered = answers(student, lambda: student.call("tokens.apply_chat_template", said))
    return [isinstance(t, str) and "second" in t and "first" not in t for t in rendered] == [True]


@behaviour("begin_token_prepended", "lab1.encode")
@cases("encode_special")
def behaves_begun(student: Student, case: Case) -> bool:
    """The right ids come behind one that the text does not hold."""
    encode = partial(student.call, tokenizer(student, case), case["text"], method="encode")
    return any(
        isinstance(ids, (list, tuple)) and list(ids[1:]) == list(case["ids"])
        for ids in answers(student, encode)
    )


@behaviour("exponent_doubled", "lab1.positions")
@cases("positions_table")
def behaves_doubled_exponent(student: Student, case: Case) -> bool:
    """Of two pairs the first turns by 1 at each place, the second by a ten-thousandth."""
    table = answers(student, lambda: student.call("tokens.sinusoidal_positions", 3, 4))
    angles = np.arange(3)[:, None] * np.array([1.0, 1e-4])
    want = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(3, 4)
    return any(
        isinstance(one, Tensor) and one.shape == (3, 4) and np.allclose(one.array, want, atol=1e-6)
        for one in table
    )


@behaviour("frequency_of_each_feature", "lab1.positions")
@cases("positions_table")
def behaves_single_features(student: Student, case: Case) -> bool:
    """Sines and cosines alternate, and the angle of every feature is less than the one before."""
    tables = answers(student, lambda: student.call("tokens.sinusoidal_positions", 3, 4))
    for table in tables:
        if not isinstance(table, Tensor) or table.shape != (3, 4):
            continue
        one, two = table.array[1:].astype(np.float64).clip(-1, 1)
        angles = np.where([True, False] * 2, np.arcsin(one), np.arccos(one))
        waves = np.where([True, False] * 2, np.sin(2 * angles), np.cos(2 * angles))
        return bool((np.diff(angles) < 0).all() and np.allclose(two, waves, atol=1e-4))
    return False


@behaviour("table_begins_small", "lab1.embedding")
@cases("embedding_padding")
def behaves_small_table(student: Student, case: Case) -> bool:
    """The numbers of a new table spread, but less than those of N(0, 1) do."""
    table = student.new("builtins.getattr", student.new("tokens.Embedding", 400, 25), "weight")
    spread = answers(student, lambda: student.call("torch.std", table))
    return any(isinstance(one, Tensor) and 0 < float(one.array) < 0.9 for one in spread)


@behaviour("padding_of_0_taken_for_none", "lab1.embedding")
@cases("embedding_padding")
def behaves_zero_padding(student: Student, case: Case) -> bool:
    """Row 1 of a new table is zeros where padding_idx is 1; no row is where it is 0."""

    def counts(padding: int) -> Result:
        table = student.new("tokens.Embedding", 3, 4, padding_idx=padding)
        weight = student.new("builtins.getattr", table, "weight")
        return student.call("torch.count_nonzero", weight, 1)

    found = answers(student, lambda: counts(1), lambda: counts(0))
    return [one.array.tolist() for one in found if isinstance(one, Tensor)] == [[4, 0, 4], [4] * 3]

"""What several experiments of lab 3 ask alike; see :mod:`behaviours`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    StudentError,
    answers,
    config,
    expect_close,
    expect_items,
    expect_number,
    expect_shape,
    works,
)
from autograder.checks.experiments import is_right, near
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import attention_of, cache_of, changed_at, sizes, table_of


def attend(
    student: Student,
    case: Case,
    cache: Handle | None = None,
    *mask: Tensor,
    rows: int | None = None,
) -> Result:
    """The answer to the whole input, or to so many sequences of it, from position 0 on."""
    x = Tensor.of(case["x"].array[:rows])
    return attention_of(student, case, cache)(x, 0, table_of(student, case), *mask)


def new_cache(student: Student, case: Case, batch: int | None = None) -> Handle:
    sizes = (batch or case["size"][0], *case["size"][1:])
    return student.new("attention.KVCache", *sizes, Dtype("float32"))


def put(
    student: Student, cache: Handle, case: Case, first: int, end: int, rows: int | None = None
) -> Result:
    """Store tokens of the case (of so many sequences) at their place."""
    pair = (Tensor.of(case[name].array[:rows, first:end]) for name in "kv")
    return student.call(cache, *pair, first, method="update")


def turned(x: NDArray[Any], case: Case, axis: int = 1) -> NDArray[np.float64]:
    """``x`` with each pair of neighbours turned; rows of the case's table lie along ``axis``."""
    turn = case["cos"].array + 1j * case["sin"].array.astype(np.float64)
    turn = np.expand_dims(turn[: x.shape[axis]], 2 - axis)  # [T, 1, pairs] or [1, heads, pairs]
    points = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    return np.stack((points.real, points.imag), -1).reshape(x.shape)


def rotated(case: Case) -> Iterator[NDArray[np.float64]]:
    """The rotated xq and xk."""
    yield from (turned(case[name].array.astype(np.float64), case) for name in "qk")


def rotation(student: Student, case: Case) -> Result:
    table = table_of(student, case)
    return student.call("attention.apply_rotary_emb", case["q"], case["k"], table)


def all_of_both(value: Any, both: Sequence[NDArray[Any]]) -> bool:
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


def refusals(student: Student, case: Case) -> list[StudentError | None]:
    """What a full cache raises at one token more, and one with a gap; both served before."""
    tokens, max_len = case["k"].shape[1], case["size"][1]
    pair = [np.tile(case[name].array, (1, 2, 1, 1))[:, :max_len] for name in "kv"]
    full, gap = new_cache(student, case), new_cache(student, case)
    whole = student.call(full, *map(Tensor.of, pair), 0, method="update")
    part = put(student, gap, case, 0, tokens)
    served = works(student, lambda: (expect_items(whole, 2, case), expect_items(part, 2, case)))
    if not served:
        return [None, None]
    found: list[StudentError | None] = []
    more = [Tensor.of(one[:, :1]) for one in pair]
    for cache, start in ((full, max_len), (gap, tokens + 2)):
        student.call(cache, *more, start, method="update")
        try:
            student.flush()
            found.append(None)
        except StudentError as error:
            found.append(error)
    return found


def turns_heads(student: Student, case: Case) -> bool:
    """With as many heads as tokens, head h turns by the angle of token h in every token."""
    x = case["q"].array
    many = min(x.shape[1:3])
    x, rows = x[:, :many, :many], slice(many)
    given = Tensor.of(x), Tensor.of(x), table_of(student, case, rows=rows)
    call = student.call("attention.apply_rotary_emb", *given)
    wanted = turned(x.astype(np.float64), case, axis=2)
    return any(near(q.array, wanted) for q in tensors_of(*answers(student, lambda: call)))


def tensors_of(*values: Any) -> list[Tensor]:
    """The tensors of those values that are tuples or lists of nothing else."""
    pairs = [list(value) for value in values if isinstance(value, (tuple, list))]
    return [one for pair in pairs for one in pair if all(isinstance(x, Tensor) for x in pair)]


def overfull(student: Student, case: Case) -> list[NDArray[Any] | None]:
    """The keys that update gives for tokens beyond max_len; nothing where one of them raises.

    One more goes to a full cache, where the first token is -1 and the new one 9; and more than
    there is room for to one that could hold some. None for an answer that is no pair.
    """
    tokens, max_len = case["k"].shape[1], case["size"][1]
    many = np.tile(case["k"].array, (1, 2, 1, 1))[:, :max_len]
    many[:, 0] = -1
    found = []
    for held, more in ((max_len, 1), (tokens, max_len - tokens + 1)):
        cache = new_cache(student, case)
        old, new = Tensor.of(many[:, :held]), Tensor.of(np.full_like(many[:, :more], 9))
        student.call(cache, old, old, 0, method="update")
        student.flush()
        found += answers(student, partial(student.call, cache, new, new, held, method="update"))
    keys = [value[0] if isinstance(value, (tuple, list)) and value else None for value in found]
    return [one.array if isinstance(one, Tensor) else None for one in keys if len(keys) == 2]


def takes_one(student: Student, cache: Handle, case: Case, at: int) -> bool:
    """Whether the cache takes the case's token ``at`` at its place, the last one there is then."""
    found = tensors_of(*answers(student, lambda: put(student, cache, case, at, at + 1)))
    return len(found) == 2 and found[0].shape[1] == at + 1


def first_after_reset(student: Student, case: Case) -> NDArray[Any] | None:
    """The first of two keys, and of two values, when a token is put at 1 behind a reset.

    None where that is refused, gives another number of them, or is taken by a new cache as well.
    """
    cache, end = new_cache(student, case), case["k"].shape[1]
    if answers(student, lambda: put(student, new_cache(student, case), case, 1, 2)):
        return None
    put(student, cache, case, 0, end)
    student.call(cache, method="reset")
    student.flush()
    found = answers(student, lambda: put(student, cache, case, 1, 2))
    pair = tensors_of(*found)
    two = len(pair) == 2 and all(one.shape[1] == 2 for one in pair)
    return np.stack([one.array[:, 0] for one in pair]) if two else None


def scaled_by(student: Student, case: Case, number: float) -> bool:
    """Whether it is right once the norm of the queries makes up for a root of ``number``."""
    _, _, _, head_dim, _ = sizes(case)
    norm = case.weights["q_norm.weight"].array * np.float32((number / head_dim) ** 0.5)

    def made_up(**changed: Tensor) -> Result:
        attention = attention_of(student, case, changed=changed)
        return attention(case["x"], case["start"], table_of(student, case))

    changed = {"q_norm.weight": Tensor.of(norm)}
    return is_right(student, case, lambda: made_up(**changed)) and not is_right(
        student, case, made_up
    )


def serves(student: Student, case: Case, mask: NDArray[Any], first: int = 0) -> bool:
    """Whether a mask gives the right answer in all sequences from ``first`` on."""
    part = (slice(first, None),)

    def right() -> None:
        given = Tensor.of(mask.astype(np.float32))
        expect_close(attend(student, case, None, given), case["y"], case, part=part)

    return works(student, right)


def width(student: Student, dim: int, multiple_of: int, factor: float | None) -> float:
    """What ``feed_forward_size`` gives; NaN where that is no number."""
    asked = dim, multiple_of, factor
    found = answers(student, lambda: student.call("mlp.feed_forward_size", *asked))
    return float(found[0]) if found and isinstance(found[0], (int, float)) else np.nan


def rounds_elsewhere(student: Student) -> bool:
    """Whether widths are right where no fraction arises, and a little off where one does."""
    smooth = {(30, 1, None): 80, (300, 7, None): 805, (96, 64, 1.5): 384, (96, 256, 1.5): 512}
    if any(width(student, *asked) != want for asked, want in smooth.items()):
        return False
    off = [
        width(student, dim, 1, factor) - int((factor or 1) * (8 * dim // 3))
        for dim in (100, 101, 1000, 1001)
        for factor in (None, 1.3)
    ]
    return 0 < max(map(abs, off)) < 8 and not any(map(np.isnan, off))


def permutes(student: Student, case: Case, rows: int, heads: int, *column: int) -> bool:
    """Whether it is right for the first rows of the weight, or for a column of them."""
    weight, want = (Tensor.of(case[name].array[(slice(rows), *column)]) for name in ("weight", "y"))
    given = weight, heads, case["head_dim"]
    return works(
        student,
        lambda: expect_close(student.call("attention.permute_for_complex", *given), want, case),
    )


def is_right_from(student: Student, case: Case, start: int, *mask: Tensor) -> bool:
    """Whether it is right without a cache from a position on; only distances matter."""
    attention, table = attention_of(student, case), table_of(student, case)
    return is_right(student, case, lambda: attention(case["x"], start, table, *mask))


def _second_half(student: Student, case: Case, *mask: NDArray[Any]) -> Result:
    """The answer to the later half of the tokens; the other half is in the cache."""
    x, table = case["x"].array, table_of(student, case)
    tokens = x.shape[1] // 2
    attention = attention_of(student, case, cache_of(student, case))
    attention(Tensor.of(x[:, :tokens]), 0, table)
    given = map(Tensor.of, mask)
    return attention(Tensor.of(x[:, tokens:]), tokens, table, *given)


def is_right_in_pieces(student: Student, case: Case) -> bool:
    """Whether the later half of the tokens is right with its rows of the case's mask."""
    tokens = case["x"].shape[1] // 2
    wanted, mask = Tensor.of(case["y"].array[:, tokens:]), case["mask"].array[..., tokens:, :]
    return works(student, lambda: expect_close(_second_half(student, case, mask), wanted, case))


def masks_past_last(student: Student, case: Case) -> bool:
    """Whether a later piece has a mask of its own, a wrong one: the past's columns stand last."""
    tokens = case["x"].shape[1] // 2
    mask, wanted = case["mask"].array[..., tokens:, :], case["y"].array[:, tokens:]
    mask = np.roll(mask, -tokens, -1)
    found = answers(
        student,
        lambda: _second_half(student, case),
        lambda: _second_half(student, case, mask),
    )
    arrays = [value.array for value in found if isinstance(value, Tensor)]
    return len(arrays) == 2 and near(*arrays) and not near(arrays[0], wanted)


def values_are_of_wk(student: Student, case: Case) -> bool:
    """Whether a single token, which attends to itself, goes through wk in the place of wv."""
    _, heads, kv_heads, head_dim, _ = sizes(case)
    x, wk, wo = case["x"].array, *(case.weights[f"{name}.weight"].array for name in ("wk", "wo"))
    value = np.repeat((x @ wk.T).reshape(-1, 1, kv_heads, head_dim), heads // kv_heads, axis=2)
    found = answers(student, lambda: attend(student, case))
    wanted = value.reshape(-1, 1, heads * head_dim) @ wo.T
    return any(isinstance(one, Tensor) and near(one.array, wanted) for one in found)


def cares_about_wv(student: Student, case: Case) -> bool:
    """Whether several tokens come out otherwise with another wv, or raise."""
    x = Tensor.of(np.concatenate([case["x"].array, -2 * case["x"].array[::-1]], axis=1))
    other = {"wv.weight": Tensor.of(case.weights["wv.weight"].array[::-1].copy())}
    table = table_of(student, case)
    found = answers(
        student,
        lambda: attention_of(student, case)(x, 0, table),
        lambda: attention_of(student, case, changed=other)(x, 0, table),
    )
    arrays = [value.array for value in found if isinstance(value, Tensor)]
    return len(arrays) != len(found) or len(found) != 2 or not near(*arrays)


def sees_last(student: Student, case: Case) -> bool:
    """Whether, from the case's start on, the first token depends on the last one."""
    attention, table = attention_of(student, case), table_of(student, case)
    inputs = case["x"], changed_at(case["x"], (slice(None), -1))
    calls = (partial(attention, x, case["start"], table) for x in inputs)
    first = [one.array[:, 0] for one in answers(student, *calls) if isinstance(one, Tensor)]
    return len(first) == len(inputs) and not near(*first)


def projects_all(student: Student, case: Case, *names: str) -> bool:
    """Whether as many rows as tokens enter one of these layers for the last token alone.

    All others are in the cache, and the answer is right.
    """
    attention, table = attention_of(student, case, cache_of(student, case)), table_of(student, case)
    x, y, before = case["x"].array, case["y"].array[:, -1:], case["x"].shape[1] - 1
    attention(Tensor.of(x[:, :before]), 0, table)
    found = answers(
        student,
        lambda: student.call(attention, Tensor.of(x[:, before:]), before, table, count=names),
    )
    counted = [step for step in found if isinstance(step, (tuple, list)) and len(step) == 2]
    return any(
        isinstance(value, Tensor)
        and near(value.array, y)
        and isinstance(rows, dict)
        and any(expect_number(rows.get(name, 0), case) >= len(x) * x.shape[1] for name in names)
        for value, rows in counted
    )


def feeds(student: Student, case: Case, *axes: int) -> bool:
    """Whether the MLP is right for [*axes, tokens, dim]."""
    mlp = student.new("mlp.FeedForward", case["dim"], case["width"], weights=case.weights)
    x, y = (Tensor.of(case[name].array.reshape(*axes, *case[name].shape)) for name in "xy")
    return works(student, lambda: expect_close(expect_shape(mlp(x), x.shape, case), y, case))


def converted(student: Student, case: Case) -> tuple[set[str], set[str]]:
    """Names that a state dict had, and those that come back; none where that is no dict."""
    given = case.group("in.")
    found = answers(student, lambda: student.call("mlp.convert_hf_mlp", given))
    return set(given), {name for some in found if isinstance(some, dict) for name in some}


def loads(student: Student, case: Case, width: int, head: int, *norms: int) -> bool:
    """Whether weights fit for queries ``width`` wide, in heads of ``head``.

    ``norms`` are the sizes of q_norm and k_norm, if they are not over a head.
    """
    dim, heads, kv_heads, head_dim, eps = sizes(case)
    narrow = (kv_heads * head, dim)
    shapes = {
        "wq": (width, dim), "wk": narrow, "wv": narrow, "wo": (dim, width),
        "q_norm": (head,), "k_norm": (head,),
    }  # fmt: skip
    shapes |= {name: (size,) for name, size in zip(("q_norm", "k_norm"), norms, strict=False)}
    weights = {
        f"{name}.weight": Tensor.of(np.zeros(shape, np.float32)) for name, shape in shapes.items()
    }
    given = dim, heads, kv_heads, head_dim, eps, None
    path = "attention.GroupedQueryAttention"
    return works(student, lambda: student.new(path, *given, weights=weights))


def gives_back(student: Student, case: Case, rows: int, shown: int) -> bool:
    """Whether a cache of so many sequences gives back the first ``shown``, for all rows."""
    tokens = case["k"].shape[1]

    def same() -> None:
        pair = expect_items(
            put(student, new_cache(student, case, rows), case, 0, tokens, rows), 2, case
        )
        for item, name in zip(pair, "kv", strict=True):
            held = case[name].array[:shown]
            wanted = np.broadcast_to(held, (rows, *held.shape[1:]))
            expect_close(item, Tensor.of(wanted), case)

    return works(student, same)


def lacks_keys_behind(student: Student, model: Mapping[str, Any]) -> bool:
    """Of a prompt of ten tokens the first query meets one key, the second two, and so on."""
    values = answers(student, lambda: student.call("mlp.prefill_flops", config(model), 10))
    layers = answers(student, lambda: student.call("mlp.layer_flops", config(model), 10, 0))
    if not (values and layers and isinstance(values[0], int) and isinstance(layers[0], dict)):
        return False
    depth, width = model["num_hidden_layers"], model["num_attention_heads"] * model["head_dim"]
    head = 2 * model["hidden_size"] * model["vocab_size"]
    steps = depth * (layers[0].get("total", 0) - 4 * width * sum(range(10)))
    return values[0] in (steps + head, steps + 10 * head)  # logits of the last step, or of each

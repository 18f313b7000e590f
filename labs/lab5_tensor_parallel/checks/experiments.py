"""What experiments of lab 5 ask, and what answers they expect of whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    Handle,
    Named,
    Result,
    Student,
    StudentError,
)
from autograder.checks.experiments import near, normal, softmax
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Each, OutOfStep, RankResult
from labs.lab5_tensor_parallel.checks.questions import (
    ATTEND,
    FLAT,
    ROW,
    ROWS,
    TABLE_PATH,
    Array,
    Experiment,
    all_near,
    given,
    shown,
    told,
    told_by_ranks,
    whole,
)

# ---- row

TENS = 10.0 * np.arange(3)[:, None]  # of the rows of a weight


def row_parts(world: int) -> list[Array]:
    """What every rank computes by itself in ``row_on_ranks``."""
    return [
        (normal(3, 2, seed=rank) @ normal(5, 2, seed=10 + rank).T).astype(np.float64)
        for rank in range(world)
    ]


def row_call(student: Student, world: int) -> RankResult:
    group = student.ranks(world)
    held = [{"weight": given(normal(5, 2, seed=10 + rank))} for rank in range(world)]
    linear = group.new(ROW, 2 * world, 5, weights=Each(held))
    x = Each([given(normal(3, 2, seed=rank)) for rank in range(world)])
    return group.call(linear, x, counted=True)


def row_on_ranks(student: Student, world: int) -> tuple[list[Array], int] | None:
    return told_by_ranks(lambda: row_call(student, world))


def row_on_one(student: Student) -> bool:
    """Whether one rank alone gets its product."""
    found = row_on_ranks(student, 1)
    return found is not None and all_near(found[0], row_parts(1))


def row_gives(student: Student, want: Callable[[list[Array]], list[Any]]) -> int | None:
    """How many collectives it takes to get this out of two and of four ranks; None: it does not."""
    most = 0
    for world in (2, 4):
        found = row_on_ranks(student, world)
        if found is None or not all_near(found[0], want(row_parts(world))):
            return None
        most = max(most, found[1])
    return most


def row_columns(student: Student) -> list[Array] | None:
    """The columns, by number, that each of two ranks loads of four."""

    def load() -> RankResult:
        group = student.ranks(2)
        linear = group.new(ROW, 4, 3)
        weight = group.new("builtins.getattr", linear, "weight")
        loaded = given(TENS + np.arange(4))
        group.call(linear, weight, loaded, method="weight_loader")
        return group.get(linear, "weight")

    found = told_by_ranks(load)
    return None if found is None else found[0]


# ---- attention


ENDS = (0, 3, 7, 8)


def shares_of(student: Student, ends: Sequence[int] = ENDS, count: int = 8) -> Array | None:
    """``[heads, tokens, keys]``: how much every key counts, told by values that are unit vectors.

    Two kv heads for four heads; ``count`` tokens, of which ``ends`` says nothing or too much.
    """
    q, k = flat_inputs(count)
    v = np.tile(np.eye(count)[:, None], (1, 2, 1))

    def call() -> Result:
        tensors = [given(t) for t in (q, k, v)]
        return student.call("attention.flat_attention", *tensors, whole(ends))

    got = told(student, call)
    return None if got is None or got.shape[1:] != (4, count) else got.transpose(1, 0, 2)


def flat_inputs(count: int = 8) -> tuple[Array, Array]:
    q, k = normal(count, 4, count, seed=1) * 2.0, normal(count, 2, count, seed=2) * 2.0
    return q.astype(np.float64), k.astype(np.float64)


def causal(i: Any, j: Any) -> Any:
    return j <= i


def flat_shares(
    sees: Callable[[Any, Any], Any] = causal,
    scale: float = 0.0,
    ends: Sequence[int] = ENDS,
    count: int = 8,
) -> Array:
    """What ``shares_of`` should be where query ``i`` of a sequence sees the keys ``j``."""
    q, k = flat_inputs(count)
    found = np.zeros((4, count, count))
    for first, end in pairwise(ends):
        own = slice(first, end)
        place = np.arange(end - first)
        seen = sees(place[:, None], place[None, :])
        for head in range(4):
            logits = q[own, head] @ k[own, head // 2].T * (scale or count**-0.5)
            found[head, own, own] = softmax(np.where(seen, logits, -1e9))
    return found


def late_shares() -> list[Array]:
    """The same where all of the mask, or the part of it for the past or for others, comes late.

    What it hides then is set to 0, and the rest of the shares stays as small as it was.
    """
    q, k = flat_inputs()
    place, text = np.arange(8), np.searchsorted(ENDS, np.arange(8), side="right")
    own, past = text[:, None] == text, place[:, None] >= place
    scores = np.einsum("ihd,jhd->hij", q, k.repeat(2, axis=1)) * 8**-0.5
    early = own | True, own, past
    return [softmax(np.where(seen, scores, -1e9)) * (own & past) for seen in early]


def by_spans(count: int, *spans: tuple[int, int]) -> Array:
    """Of every span of the tokens what it should be by itself, one behind the other."""
    own = (flat_shares(ends=span, count=count)[:, slice(*span)] for span in spans)
    return np.concatenate([*own], 1)


def loses_last_border(student: Student) -> bool:
    """Whether it is right with the last border twice, and wrong with the last border once."""
    found = [shares_of(student, ends) for ends in ((*ENDS, ENDS[-1]), ENDS)]
    return near(found[0], flat_shares()) and not near(found[1], flat_shares())


def confuses_lengths(student: Student) -> bool:
    """Whether 0 3 7 8 are taken for lengths, or the lengths 3 and 8 for ends."""
    borders = shares_of(student, ENDS, sum(ENDS))
    as_lengths = ((0, 3), (3, 10), (10, 18)), ((0, 3), (3, 10), (7, 15))
    short = by_spans(11, (0, 3), (3, 8))
    as_ends = short, np.pad(short, ((0, 0), (0, 3), (0, 0))), by_spans(11, (0, 3), (3, 8), (8, 11))
    return near(borders, *(by_spans(18, *spans) for spans in as_lengths)) or near(
        shares_of(student, (0, 3, 11), 11), *as_ends
    )


def turned(x: Array, positions: Array, theta: float) -> Array:
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** -(np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def normed(x: Array, weight: Array, eps: float = 1e-5) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight)


HIDDEN, THETA, OTHER = 10, 50.0, 3.0
POSITIONS = np.array([0, 1, 2, 0, 5, 7, 9, 4])
_AT: dict[str, NDArray[Any]] = {
    "qkv_proj.weight": normal(8 * 4, HIDDEN, seed=3),
    "o_proj.weight": normal(HIDDEN, 16, seed=4),
    "q_norm.weight": np.abs(normal(4, seed=5)) + 0.5,
    "k_norm.weight": np.abs(normal(4, seed=6)) + 0.5,
}


def of_other_base(student: Student) -> Handle:
    """A rotation like the student's own, but for its base."""
    return student.new("functools.partial", Named("attention.rotate"), theta=OTHER)


def x_given_back(student: Student) -> Handle:
    """A rotation that leaves what it is given first as it is."""
    return student.new("labs.given.parallel.NoRotation")


def heads_given_back(student: Student) -> Handle:
    """A rotation that leaves heads as they are, whether they come before positions or after."""
    dimensions = student.new("operator.attrgetter", "ndim")
    return student.new("functools.partial", Named("builtins.max"), key=dimensions)


def attention_told(
    student: Student, rotary: Callable[[Student], Handle] | None = None
) -> Array | None:
    """What attention gives on one rank, with its own rotation or one that is passed in."""

    def call() -> Result:
        more = () if rotary is None else (rotary(student),)
        weights = {name: given(array) for name, array in _AT.items()}
        sizes = (HIDDEN, 4, 2, 4, 1e-5, THETA)
        attention = student.new("attention.Qwen3Attention", *sizes, *more, weights=weights)
        return attention(whole(POSITIONS), given(normal(8, HIDDEN, seed=7)), whole(ENDS))

    return told(student, call)


def attention_wanted(
    *,
    for_q: float = THETA,
    for_k: float = THETA,
    swapped: bool = False,
    grouped: bool = False,
    norm_v: str = "",
) -> Array:
    """What it should be with these bases (infinite: not turned), and with such a mistake."""
    packed = normal(8, HIDDEN, seed=7).astype(np.float64) @ _AT["qkv_proj.weight"].T
    q, k, v = (part.reshape(8, -1, 4) for part in np.split(packed, (16, 24), axis=1))
    if grouped:  # for each kv head two of queries, then its key and its value
        both = packed.reshape(8, 2, 4, 4)
        q, k, v = both[:, :, :2].reshape(8, 4, 4), both[:, :, 2], both[:, :, 3]
    k, v = (v, k) if swapped else (k, v)
    q, k = normed(q, _AT["q_norm.weight"]), normed(k, _AT["k_norm.weight"])
    if norm_v:
        v = normed(v, _AT[norm_v])
    still = np.zeros(8)
    q = turned(q, still if np.isinf(for_q) else POSITIONS, for_q)
    k = turned(k, still if np.isinf(for_k) else POSITIONS, for_k)
    out = np.zeros((8, 4, 4))
    for first, end in pairwise(ENDS):
        own = slice(first, end)
        seen = np.tri(end - first, dtype=bool)
        for head in range(4):
            logits = np.where(seen, q[own, head] @ k[own, head // 2].T / 2, -1e9)
            out[own, head] = softmax(logits) @ v[own, head // 2]
    return np.asarray(out.reshape(8, 16) @ _AT["o_proj.weight"].T)


BASE = 30.0  # of rotations


def turns_of(student: Student) -> Array | None:
    """``[pairs, 2]``: cos and sin of the angle of each pair at position 1, told by products.

    The order in which a rotation returns its numbers is free, so only products count.
    """
    units = np.eye(8)[None].repeat(2, 0)  # every unit vector is a head, at positions 0 and 1

    def call() -> Result:
        return student.call("attention.rotate", given(units), whole([0, 1]), BASE)

    got = told(student, call)
    if got is None or got.shape != (2, 8, 8):
        return None
    products = got[0] @ got[1].T  # [unit at 0, unit at 1]
    half = 4
    pairs = np.arange(half)
    return np.stack((products[pairs, pairs], products[pairs + half, pairs]), -1)


def turns_by(student: Student, angles: Array) -> bool:
    """Whether the pairs turn by these angles at position 1, one way or the other."""
    want = np.stack((np.cos(angles), np.sin(angles)), -1)
    found = turns_of(student)
    return near(found, want) or near(found, want * [1, -1])


def rotated(student: Student, x: Array, positions: Array) -> Array | None:
    def call() -> Result:
        return student.call("attention.rotate", given(x), whole(positions), BASE)

    return told(student, call)


def normed_along(student: Student, axes: int | tuple[int, int]) -> bool:
    """Whether the mean square is taken along these axes."""
    x, weight = normal(5, 3, 4).astype(np.float64), (0.5, 2.0, 1.0, 3.0)

    def call() -> Result:
        norm = student.new("attention.HeadNorm", 4, 1e-5, weights={"weight": given(weight)})
        return norm(given(x))

    want = x / np.sqrt((x**2).mean(axes, keepdims=True) + 1e-5) * weight
    return near(told(student, call), want)


def row_leaves_some(student: Student) -> bool:
    """Whether some of two or of four ranks return while others wait for them."""
    for world in (2, 4):
        try:
            row_call(student, world).settle()
        except OutOfStep as error:
            if error.gone:
                return True
        except StudentError:
            return False
    return False


# ---- the vocabulary on two ranks, which share five ids: rank 1 has a row too much

TABLE = np.arange(1, 11, dtype=np.float64).reshape(5, 2)
STATES = normal(11, 2, seed=8)
LASTS = (0, 1, 4, 6)  # borders: of three sequences


def leaves_surplus_rows(student: Student) -> bool:
    """Whether the row without an id is as it was before, not zero, and all others are right."""
    found = []

    def load() -> RankResult:
        group = student.ranks(2)
        embedding = group.new(TABLE_PATH, 5, 2)
        weight = group.new("builtins.getattr", embedding, "weight")
        found.append(group.call(weight, method="clone"))
        group.call(embedding, weight, given(TABLE), method="weight_loader")
        return group.get(embedding, "weight")

    after, before = told_by_ranks(load), told_by_ranks(found.pop)
    if after is None or before is None or any(rows.shape != (3, 2) for rows in after[0]):
        return False
    last = after[0][1][2]
    right = near(np.concatenate(after[0])[:5], TABLE)
    return right and bool(last.any()) and np.array_equal(last, before[0][1][2])


def loads_evenly(student: Student) -> bool:
    """Whether one of four ranks, the first or the last, loads two of five rows, and others one."""

    def load() -> RankResult:
        group = student.ranks(4)
        embedding = group.new(TABLE_PATH, 5, 2)
        weight = group.new("builtins.getattr", embedding, "weight")
        group.call(embedding, weight, given(TABLE), method="weight_loader")
        return group.get(embedding, "weight")

    found = told_by_ranks(load)
    if found is None or any(rows.shape != (2, 2) for rows in found[0]):
        return False
    shares = [np.split(TABLE, ends) for ends in ((2, 3, 4), (1, 2, 3))]
    return any(
        all_near([rows[: len(own)] for rows, own in zip(found[0], even, strict=True)], even)
        for even in shares
    )


def head_on_ranks(
    student: Student, ends: Sequence[int] = LASTS, count: int = 6
) -> list[Array] | None:
    def call() -> RankResult:
        group = student.ranks(2)
        rows = np.concatenate((TABLE, np.zeros((1, 2))))
        held = Each([{"weight": given(rows[:3])}, {"weight": given(rows[3:])}])
        head = group.new("model.ParallelLMHead", 5, 2, weights=held)
        return group.call(head, given(STATES[:count]), whole(ends))

    found = told_by_ranks(call)
    return None if found is None else found[0]


def logits_at(places: Sequence[int]) -> Array:
    """``[places, rows]``: what follows these tokens."""
    return np.asarray(STATES[list(places)] @ np.concatenate((TABLE, np.zeros((1, 2)))).T)


LOGITS = logits_at((0, 3, 5))


def head_loses_last_border(student: Student) -> bool:
    """Whether a row is absent, and comes with the last border twice."""
    found = [head_on_ranks(student, ends) for ends in ((*LASTS, LASTS[-1]), LASTS)]
    rows = LOGITS, LOGITS[:2]
    return all(all_near(got, [r[:, :5]] * 2) for got, r in zip(found, rows, strict=True))


def head_confuses_lengths(student: Student) -> bool:
    """Whether 1 4 6 are taken for lengths, or the lengths 1, 3 and 2 for ends."""
    found = head_on_ranks(student, LASTS, sum(LASTS))
    return any(all_near(found, [logits_at(p)[:, :5]] * 2) for p in ((0, 4, 10), (0, 2, 1)))


# ---- experiments of one kind, each in a line


def gives(mistake: str, want: Callable[[list[Array]], list[Any]]) -> Experiment:
    """The experiment that shows ranks which make this of their parts."""
    return shown(mistake, ROWS, "row", lambda student, _: row_gives(student, want) is not None)


def loads(mistake: str, want: NDArray[Any]) -> Experiment:
    """The experiment that shows two ranks which load this of a row-parallel weight."""

    def loaded(student: Student, case: Case) -> bool:
        return all_near(row_columns(student), list(want))

    return shown(mistake, ROWS, "row_loading", loaded)


def attends(mistake: str, sees: Callable[[Any, Any], Any], scale: float = 0.0) -> Experiment:
    """The experiment that shows this mask and this scale."""

    def counts(student: Student, case: Case) -> bool:
        return near(shares_of(student), flat_shares(sees, scale))

    return shown(mistake, FLAT, "flat_core", counts)


def mixes(mistake: str, **wanted: Any) -> Experiment:
    """The experiment that shows an attention which gives this."""

    def gives_it(student: Student, case: Case) -> bool:
        return near(attention_told(student), attention_wanted(**wanted))

    return shown(mistake, ATTEND, "attention_core", gives_it)

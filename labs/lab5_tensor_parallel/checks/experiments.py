"""What experiments of lab 5 ask, and what answers they expect of whom."""

from __future__ import annotations

from collections.abc import Callable
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
    Tensor,
    answers,
    config,
)
from autograder.checks.experiments import near, normal, softmax
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Each, OutOfStep, RankResult
from labs.lab5_tensor_parallel.checks.questions import (
    FLAT,
    QKV,
    ROW,
    ROWS,
    TABLE_PATH,
    Array,
    Experiment,
    all_near,
    array_of,
    given,
    norm_pair,
    shown,
    told,
    told_by_ranks,
    whole,
)

# ---- loading

HEADS, KV_HEADS, SIZE = 4, 2, 3
Q, K = HEADS * SIZE, KV_HEADS * SIZE  # rows of queries and of keys
PARTS = {"q": np.arange(Q) + 100.0, "k": np.arange(K) + 200.0, "v": np.arange(K) + 300.0}


def places_of(student: Student) -> dict[str, int] | None:
    """The row at which each part begins when it alone is loaded; None where one is nowhere."""
    found = {}
    for shard, numbers in PARTS.items():

        def load(shard: str = shard, numbers: Any = numbers) -> Result:
            linear = student.new(QKV, 1, SIZE, HEADS, KV_HEADS)
            weight = student.new("builtins.getattr", linear, "weight")
            student.call(linear, weight, given(numbers[:, None]), shard, method="weight_loader")
            return student.get(linear, "weight")

        rows = told(student, load)
        if rows is None or rows.shape != (Q + 2 * K, 1):
            return None
        first = np.flatnonzero(rows[:, 0] == numbers[0])
        if len(first) != 1 or not near(rows[first[0] :][: len(numbers), 0], numbers):
            return None
        found[shard] = int(first[0])
    return found


def places_on_ranks(student: Student) -> dict[str, int] | None:
    """The same on each of two ranks, told by a tall tensor: its only numbers are the rank's own."""
    found: dict[str, int] = {}
    for shard, numbers in PARTS.items():
        group = student.ranks(2)
        linear = group.new(QKV, 1, SIZE, HEADS, KV_HEADS)
        given_ones = given(np.zeros((42, 1))), given(numbers[:, None]), shard
        called = group.call(linear, *given_ones, method="weight_loader", echo=True)
        try:
            tall = [array_of(one.value[1][0]) for one in called]
        except StudentError:
            return None
        for rows, own in zip(tall, np.split(numbers, 2), strict=True):
            if rows is None or rows.shape != (42, 1):
                return None
            filled = np.flatnonzero(rows)
            if len(filled) != len(own) or not near(rows[filled[0] :][: len(own), 0], own):
                return None
            if found.setdefault(shard, int(filled[0])) != filled[0]:
                return None
    return found


def packed_on(student: Student, world: int, kv_heads: int) -> tuple[int, Any, Any] | None:
    """Rows of the packed weight, num_heads and num_kv_heads, where all ranks have the same.

    The whole model has 8 query heads of size 1.
    """
    group = student.ranks(world)
    linear = group.new(QKV, 3, 1, 8, kv_heads)
    asked = [group.get(linear, name) for name in ("weight", "num_heads", "num_kv_heads")]
    try:
        weights, heads, kv = ([one.value for one in result] for result in asked)
    except StudentError:
        return None
    shapes = [weight.shape for weight in weights if isinstance(weight, Tensor)]
    same = all(values == values[:1] * world for values in (shapes, heads, kv))
    if not (shapes and same) or len(shapes[0]) != 2 or shapes[0][1] != 3:
        return None
    return shapes[0][0], heads[0], kv[0]


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


def shares_of(student: Student, scores: bool = True) -> Array | None:
    """``[heads, tokens, keys]``: how much every key counts, told by values that are unit vectors.

    Two kv heads for four heads; without ``scores`` all keys count alike.
    """
    q, k = flat_inputs(scores)
    v = np.tile(np.eye(8)[:, None], (1, 2, 1))

    def call() -> Result:
        tensors = [given(t) for t in (q, k, v)]
        return student.call("attention.flat_attention", *tensors, whole(ENDS))

    got = told(student, call)
    return None if got is None or got.shape[1:] != (4, 8) else got.transpose(1, 0, 2)


def flat_inputs(scores: bool = True) -> tuple[Array, Array]:
    q, k = normal(8, 4, 8, seed=1) * 2.0, normal(8, 2, 8, seed=2) * 2.0
    return q.astype(np.float64), k.astype(np.float64) * scores


def flat_shares(
    sees: Callable[[Any, Any], Any], scale: float = 8**-0.5, *, scores: bool = True
) -> Array:
    """What ``shares_of`` should be where query ``i`` of a sequence sees the keys ``j``."""
    q, k = flat_inputs(scores)
    found = np.zeros((4, 8, 8))
    for first, end in pairwise(ENDS):
        own = slice(first, end)
        place = np.arange(end - first)
        seen = sees(place[:, None], place[None, :])
        for head in range(4):
            logits = q[own, head] @ k[own, head // 2].T * scale
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
STATES = normal(6, 2, seed=8)


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


def head_on_ranks(student: Student) -> list[Array] | None:
    def call() -> RankResult:
        group = student.ranks(2)
        rows = np.concatenate((TABLE, np.zeros((1, 2))))
        held = Each([{"weight": given(rows[:3])}, {"weight": given(rows[3:])}])
        head = group.new("model.ParallelLMHead", 5, 2, weights=held)
        return group.call(head, given(STATES), whole([0, 1, 4, 6]))

    found = told_by_ranks(call)
    return None if found is None else found[0]


LOGITS = STATES[[0, 3, 5]] @ np.concatenate((TABLE, np.zeros((1, 2)))).T  # [sequences, rows]


# ---- the norm, loading, and the whole model


def norm_told(student: Student, case: Case) -> Array | None:
    """The normed tensor, where the sum beside it is right."""
    for value in answers(student, lambda: norm_pair(student, case)):
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return array_of(value[0]) if near(array_of(value[1]), case["sum"].array) else None
    return None


def normed_by_length(case: Case) -> Array:
    """The sum over the root of its sum of squares, weighted."""
    total = case["sum"].array.astype(np.float64)
    length = np.sqrt((total**2).sum(-1, keepdims=True) + case["eps"])
    return np.asarray(total / length * case.weights["weight"].array)


def kind_of_error(student: Student, case: Case, name: str) -> str:
    """What loading a tensor of this name raises; nothing where it does not."""
    tensor = next(iter(case.group("hf.").values()))
    try:
        model = student.new("labs.given.flat.StandInModel", case["shapes"], case["packed"])
        student.call("mlp.load_weights", model, {name: tensor})
        student.flush()
    except StudentError as error:
        return error.type
    return ""


def parameters_listed(student: Student, case: Case) -> set[str]:
    """The names of the parameters of a whole model that is made of stand-ins."""
    names = "Qwen3Attention", "Row", "Qwen3MLP", "Qwen3DecoderLayer", "Norm"
    stand_ins = [Named(f"labs.given.parallel.StandIn{name}") for name in names]

    def call() -> Result:
        parts = student.new("labs.given.parallel.Parts", *stand_ins)
        model = student.new("model.Qwen3ForCausalLM", config(case.config), parts)
        return student.call("labs.given.parallel.parameters_of", model)

    for found in answers(student, call):
        return set(found) if isinstance(found, dict) else set()
    return set()


# ---- experiments of one kind, each in a line


def gives(mistake: str, want: Callable[[list[Array]], list[Any]]) -> Experiment:
    """The experiment that shows ranks which make this of their parts."""
    return shown(mistake, ROWS, "row", lambda student, _: row_gives(student, want) is not None)


def loads(mistake: str, want: NDArray[Any]) -> Experiment:
    """The experiment that shows two ranks which load this of a row-parallel weight."""

    def loaded(student: Student, case: Case) -> bool:
        return all_near(row_columns(student), list(want))

    return shown(mistake, ROWS, "row_loading", loaded)


def attends(mistake: str, sees: Callable[[Any, Any], Any], scale: float = 8**-0.5) -> Experiment:
    """The experiment that shows this mask and this scale."""

    def counts(student: Student, case: Case) -> bool:
        return near(shares_of(student), flat_shares(sees, scale))

    return shown(mistake, FLAT, "flat_core", counts)

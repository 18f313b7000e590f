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
    Tensor,
    answers,
    behaviour,
    cases,
    expect_close,
    holds,
)
from autograder.checks.experiments import near, normal, softmax
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Each, OutOfStep, RankResult
from labs.lab5_tensor_parallel.checks.calls import attention_of, qkv_sizes

Array = NDArray[np.float64]


def given(values: Any) -> Tensor:
    return Tensor.of(np.ascontiguousarray(values, dtype=np.float32))


def whole(values: Any) -> Tensor:
    return Tensor.of(np.ascontiguousarray(values, dtype=np.int64))


def array_of(value: Any) -> Array | None:
    with np.errstate(invalid="ignore"):  # what nobody has filled may be anything
        return value.array.astype(np.float64) if isinstance(value, Tensor) else None


def told(student: Student, call: Callable[[], Result]) -> Array | None:
    """The tensor that a call gives; None where none comes."""
    for value in answers(student, call):
        return array_of(value)
    return None


def told_by_ranks(call: Callable[[], RankResult]) -> tuple[list[Array], int] | None:
    """The tensor of every rank, and how many collectives it took, where the call is counted."""
    try:
        result = call()
        found = [array_of(one.value) for one in result]
    except StudentError:
        return None
    arrays = [one for one in found if one is not None]
    calls = [name for name in result.calls if name != "barrier"]
    return (arrays, len(calls)) if len(arrays) == len(found) else None


def all_near(got: Sequence[Array] | None, want: Sequence[Any]) -> bool:
    """Whether every rank has its own of ``want``."""
    return got is not None and all(near(a, b) for a, b in zip(got, want, strict=True))


# ---- loading

QKV = "attention.QKVParallelLinear"
MERGED_PATH, TABLE_PATH = "mlp.MergedColumnParallelLinear", "model.VocabParallelEmbedding"
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


def weight_after(
    student: Student, path: str, sizes: Sequence[int], loaded: Tensor, shard: Any, held: int
) -> Array | None:
    """After loading: what the module holds, or the parameter that it held before."""

    def call() -> Result:
        linear = student.new(path, *sizes)
        weight = student.new("builtins.getattr", linear, "weight")
        student.call(linear, weight, loaded, *shard, method="weight_loader")
        return student.get(linear, "weight") if held else student.call(weight, method="clone")

    return told(student, call)


# ---- row

ROW = "attention.RowParallelLinear"
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
Step = Callable[[Array, Array, Array], tuple[Array, Array, Array]]


def attention_told(student: Student, *, passed: bool = False) -> Array | None:
    """What attention gives on one rank, with its own rotation or one of another base."""

    def call() -> Result:
        more: tuple[Handle, ...] = ()
        if passed:
            more = (student.new("functools.partial", Named("attention.rotate"), theta=OTHER),)
        weights = {name: given(array) for name, array in _AT.items()}
        sizes = (HIDDEN, 4, 2, 4, 1e-5, THETA)
        attention = student.new("attention.Qwen3Attention", *sizes, *more, weights=weights)
        return attention(whole(POSITIONS), given(normal(8, HIDDEN, seed=7)), whole(ENDS))

    return told(student, call)


def attention_wanted(
    *, for_q: float = THETA, for_k: float = THETA, swapped: bool = False, norm_v: str = ""
) -> Array:
    """What it should be with these bases (infinite: not turned), and with such a mistake."""
    packed = normal(8, HIDDEN, seed=7).astype(np.float64) @ _AT["qkv_proj.weight"].T
    q, k, v = (part.reshape(8, -1, 4) for part in np.split(packed, (16, 24), axis=1))
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


# ---- the simplest call of every exercise

QK, ROWS, HEAD, TURN = "lab5.qkv", "lab5.row", "lab5.head_norm", "lab5.rotate"
FLAT, ATTEND, MERGED, ACT = (
    "lab5.flat_attention",
    "lab5.attention",
    "lab5.merged",
    "lab5.silu_and_mul",
)
MLP, NORM, LAYER, LOAD = "lab5.mlp", "lab5.norm", "lab5.layer", "lab5.load"
EMBED, LM_HEAD, YARN, ROTARY = "lab5.embedding", "lab5.lm_head", "lab5.yarn", "lab5.rotary"


def norm_pair(student: Student, case: Case) -> Result:
    """What the norm gives beside a residual."""
    sizes, dtype = (case["x"].shape[-1], case["eps"]), case.values["dtype"]
    norm = student.new("mlp.RMSNorm", *sizes, weights=case.weights, dtype=dtype)
    return norm(case["x"], case["residual"])


def simplest(student: Student, case: Case, exercise: str) -> Result:
    """The simplest call of an exercise, on one rank."""
    sizes: tuple[Any, ...]
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
        return norm_pair(student, case)
    if exercise == HEAD:
        sizes = case["x"].shape[-1], case["eps"]
        return student.new("attention.HeadNorm", *sizes, weights=case.weights)(case["x"])
    if exercise == MLP:
        down = student.new("labs.given.flat.StandInDown", *case["sizes"])
        mlp = student.new("mlp.Qwen3MLP", *case["sizes"], down, weights=case.group("1.0."))
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


Experiment = Callable[[Student, Case], bool]


def shown(mistake: str, exercise: str, recipe: str, experiment: Experiment) -> Experiment:
    """An experiment in one line, to be kept under a name that begins with ``behaves_``."""

    @behaviour(mistake, exercise)
    @cases(recipe)
    def behaves(student: Student, case: Case) -> bool:
        return experiment(student, case)

    return behaves


def silent(exercise: str, recipe: str) -> Experiment:
    """The experiment that shows a call which gives None."""

    def gives_none(student: Student, case: Case) -> bool:
        return None in answers(student, lambda: simplest(student, case, exercise))

    return shown("nothing_returned", exercise, recipe, gives_none)


def beside(exercise: str, recipe: str, name: str = "y") -> Experiment:
    """The experiment that shows a right answer as one of several items."""

    def gives_more(student: Student, case: Case) -> bool:
        return holds(
            student,
            lambda: simplest(student, case, exercise),
            lambda item: expect_close(item, case[name], case),
        )

    return shown("tuple_returned", exercise, recipe, gives_more)


def replaced(
    exercise: str, recipe: str, path: str, sizes: Sequence[int], *shard: Any
) -> Experiment:
    """The experiment that shows a loader which makes a new parameter, here of [3, 2] or more."""
    loaded = given(np.arange(6).reshape(3, 2) + 100.0)

    def replaces(student: Student, case: Case) -> bool:
        held, handed = (weight_after(student, path, sizes, loaded, shard, now) for now in (1, 0))
        if held is None or handed is None or held.shape != handed.shape:
            return False
        numbers = loaded.array
        return bool(np.isin(numbers, held).all() and not np.isin(numbers, handed).any())

    return shown("parameter_replaced_while_loading", exercise, recipe, replaces)


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

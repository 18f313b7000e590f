"""What experiments of lab 6 ask, and what they expect of it.

Keys and values of attention are unit vectors here: the output then says what each key counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import Result, Student, Tensor, answers
from autograder.checks.experiments import near, normal, softmax
from autograder.reference.cases import Case
from labs.lab6_flash_moe.checks.calls import block_of, router_of

Array = NDArray[np.float64]
UP, DOWN, BUMP, LEVEL = (0.0, 1.0, 2.0), (2.0, 1.0, 0.0), (0.0, 2.0, 1.0), (0.0, 0.0, 0.0)
E = float(np.e)


def routed_by(student: Student, case: Case) -> Result:
    return router_of(student, case)(case["x"])


def made_by(student: Student, case: Case) -> Result:
    return block_of(student, case)(case["x"])


def in_dtype(values: Any, dtype: str) -> Tensor:
    """Numbers that bfloat16 holds exactly, in that dtype or in float32."""
    array = np.ascontiguousarray(values, dtype=np.float32)
    if dtype == "float32":
        return Tensor.of(array)
    return Tensor(dtype, array.shape, (array.view(np.uint32) >> 16).astype(np.uint16).tobytes())


def pair_of(
    student: Student, blocks: Sequence[Any], dtype: str = "float32"
) -> tuple[Array, Array] | None:
    """Maximum and total as they come, or None where no pair of tensors comes."""
    given = [in_dtype(block, dtype) for block in blocks]

    def call() -> Result:
        return student.call("attention.online_softmax", given)

    for value in answers(student, call):
        pair = value if isinstance(value, (tuple, list)) and len(value) == 2 else (None,)
        made = [part.array.astype(np.float64) for part in pair if isinstance(part, Tensor)]
        if len(made) == 2:
            return made[0], made[1]
    return None


def totals_of(student: Student, *patterns: Sequence[float]) -> list[float]:
    """The total of each pattern, a score a block; NaN where the maximum is not right."""
    found = []
    for scores in patterns:
        pair = pair_of(student, [[[score]] for score in scores])
        right = pair is not None and pair[1].size == 1 and near(pair[0].reshape(-1), [max(scores)])
        found.append(float(pair[1].reshape(-1)[0]) if pair is not None and right else np.nan)
    return found


def total_of(scores: Sequence[float]) -> float:
    return float(np.exp(np.asarray(scores) - max(scores)).sum())


def counts_of(
    student: Student, scores: Any, blocks: tuple[int, int], *, causal: bool = False
) -> Array | None:
    """``[queries, keys]``: what is left of unit vectors; None where no such tensor comes."""
    scores = np.atleast_2d(np.asarray(scores, np.float32))
    rows, keys = scores.shape
    q = Tensor.of((scores * np.float32(keys**0.5))[None, None])
    units = Tensor.of(np.eye(keys, dtype=np.float32)[None, None])
    given = q, units, units, causal, *blocks
    for value in answers(student, lambda: student.call("attention.flash_attention", *given)):
        if isinstance(value, Tensor) and value.shape == (1, 1, rows, keys):
            return np.asarray(value.array[0, 0].astype(np.float64))
    return None


def one_by_one(student: Student, scores: Sequence[float]) -> Array | None:
    counts = counts_of(student, scores, (1, 1))
    return None if counts is None else counts[0]


def shares_of(*parts: float) -> Array:
    return np.array(parts) / sum(parts)


def seen_by(student: Student, size: int, blocks: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Which keys count for which query in causal attention; None where not all count alike."""
    counts = counts_of(student, np.zeros((size, size)), blocks, causal=True)
    if counts is None or not np.isfinite(counts).all():
        return None
    seen: NDArray[np.bool_] = counts > 1e-4
    shares = seen / np.maximum(seen.sum(-1, keepdims=True), 1)
    return seen if near(counts, shares) else None


ROW, KEY = np.arange(6)[:, None], np.arange(6)[None]
BLOCKS = (3, 2)
SEEN = KEY <= ROW
CUT = KEY // 2 * 2 + 1 > ROW // 3 * 3  # tiles in which the diagonal hides a key from a query
MET = KEY // 2 * 2 + 1 >= ROW // 3 * 3  # and those whose last key is the first query's own
TILE_END = ROW // 3 * 3 + 2  # the last query of a tile
# What is computed: all tiles, or none that is hidden, or nothing behind a tile's last query.
COMPUTED = (np.full((6, 6), True), KEY // 2 * 2 <= TILE_END, KEY <= TILE_END)


def sees(student: Student, mask: NDArray[np.bool_]) -> bool:
    """Whether this is what queries see in blocks of 3 by 2, and nothing else is wrong.

    The mask is at work everywhere, or only in tiles that the diagonal cuts, or meets.
    """
    open_to_all = counts_of(student, np.zeros((6, 5)), BLOCKS)
    whole, seen = seen_by(student, 6, (6, 6)), seen_by(student, 6, BLOCKS)
    if whole is None or seen is None or not near(open_to_all, np.full((6, 5), 1 / 5)):
        return False
    masks = (mask, mask | ~CUT, mask | ~MET)
    found = any((seen == (one & part)).all() for one in masks for part in COMPUTED)
    return found and bool((whole == SEEN).all())


def square_is_right(student: Student) -> bool:
    """Whether square blocks are right."""
    found = (seen_by(student, 6, (size, size)) for size in (2, 3))
    return all(seen is not None and (seen == SEEN).all() for seen in found)


def first_query_decides(student: Student) -> bool:
    """Whether no query of a tile sees keys, or tiles of keys, behind the tile's first query."""
    first, tiles = ROW // 4 * 4, seen_by(student, 6, (4, 2))
    cut = first >= KEY, SEEN & (first >= KEY // 2 * 2)
    return near(seen_by(student, 6, (1, 1)), SEEN) and near(tiles, *cut)


def halves_of(student: Student, dtype: str) -> tuple[Array, Array] | None:
    """Shares of 1024 equal keys, and of those whose last half counts; then of 128 and 128.5."""
    q = [np.zeros((1, 4)), np.array([[256.0, 1.0, 0.0, 0.0]])]
    k = [np.zeros((1024, 4)), np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])]
    v = [np.zeros((1024, 4)), np.eye(2, 4)]
    v[0][:, 0], v[0][512:, 1] = 1, 1
    found = []
    for given in zip(q, k, v, strict=True):
        made = [in_dtype(one[None, None], dtype) for one in given]

        def call(made: list[Tensor] = made) -> Result:
            return student.call("attention.flash_attention", *made, False, 1, 2)

        for value in answers(student, call):
            if isinstance(value, Tensor) and value.shape == (1, 1, 1, 4):
                found.append(value.array[0, 0, 0, :2].astype(np.float64))
    return (found[0], found[1]) if len(found) == 2 else None


def halves_are(student: Student, counted: Sequence[float], scores: Sequence[float]) -> bool:
    """Whether float32 is right, and bfloat16 gives just these."""
    wide, narrow = (halves_of(student, dtype) for dtype in ("float32", "bfloat16"))
    if wide is None or narrow is None:
        return False
    right = near(wide[0], [1.0, 0.5]) and near(wide[1], softmax([0.0, 0.5]))
    gaps = np.abs(narrow[0] - counted), np.abs(narrow[1] - scores)
    return right and all(bool((gap < 0.02).all()) for gap in gaps)


def chosen_of(student: Student, dtype: str) -> list[int] | None:
    """The expert of each of four tokens that like one more; None where not even logits fit."""
    logits = np.full((4, 4), 2.0**-9, np.float32) + np.eye(4, dtype=np.float32) * 2.0**-12

    def call() -> Result:
        sizes, weights = (4, 4, 1, False), {"weight": Tensor.of(logits)}
        router = student.new("mlp.Router", *sizes, weights=weights, dtype=dtype)
        return router(in_dtype(np.eye(4), dtype))

    for value in answers(student, call):
        if not isinstance(value, (tuple, list)) or len(value) != 3:
            return None
        got, _, best = value
        fits = isinstance(got, Tensor) and got.shape == (4, 4) and (got.array == logits).all()
        if fits and isinstance(best, Tensor) and best.shape == (4, 1):
            return [int(expert) for expert in best.array[:, 0]]
    return None


CHOSEN = np.array([[4, 1], [0, 5], [2, 3]])  # every expert once: there is one way to sort
SHARES = np.array([[0.5, 0.2], [0.3, 0.6], [0.1, 0.9]], np.float32)


def experts_give(
    student: Student, pairs: Sequence[tuple[int, int, float]], chosen: NDArray[np.int64] = CHOSEN
) -> bool:
    """Whether six experts add up these ``(token, expert, weight)``, and not what they should."""
    x, up, down = normal(3, 4), normal(6, 6, 4, seed=1), normal(6, 4, 3, seed=2)
    weights = {"gate_up_proj": Tensor.of(up), "down_proj": Tensor.of(down)}
    given = Tensor.of(x), Tensor.of(chosen), Tensor.of(SHARES)
    want = np.zeros((3, 4))
    for token, expert, weight in pairs:
        gate, wide = np.split(up[expert].astype(np.float64) @ x[token], 2)
        want[token] += weight * (down[expert] @ (gate / (1 + np.exp(-gate)) * wide))
    for value in answers(
        student, lambda: student.new("mlp.Experts", 4, 3, 6, weights=weights)(*given)
    ):
        return isinstance(value, Tensor) and near(value.array.astype(np.float64), want)
    return False


def flat_places_turned(student: Student) -> bool:
    """Whether place n of the flat choices goes to token n % 3, with either of two weights."""
    experts, flat = CHOSEN.ravel().tolist(), SHARES.ravel().tolist()
    turned = [float(SHARES[n % 3, n // 3]) for n in range(6)]
    return any(
        experts_give(student, [(n % 3, experts[n], weights[n]) for n in range(6)])
        for weights in (flat, turned)
    )


def chosen_are_counted(student: Student) -> bool:
    """Whether an expert's parameters are taken at its place among those that are chosen at all."""
    chosen = np.array([[4, 1], [1, 5], [5, 4]])
    used = sorted(set(chosen.ravel().tolist()))
    pairs = [
        (token, used.index(chosen[token, place]), float(SHARES[token, place]))
        for token in range(3)
        for place in range(2)
    ]
    return experts_give(student, pairs, chosen)


def losses_are(student: Student, told: Callable[..., list[float]]) -> bool:
    """Whether a loss without padding and one with it are among those told, twice."""
    keep = np.array([[1, 1, 0], [1, 0, 0]])
    for seed in (3, 4):
        logits = normal(6, 4, seed=seed)
        shares = softmax(logits)
        picked = (shares >= np.sort(shares, -1)[:, 2:3]).astype(float)
        for mask in (None, keep):
            counts = np.full(6, True) if mask is None else keep.ravel() > 0
            want = told(shares, picked, counts)
            given = [Tensor.of(logits)], 4, 2, None if mask is None else Tensor.of(mask)
            call = partial(student.call, "mlp.load_balancing_loss", *given)
            found = answers(student, call)
            if not found or not isinstance(found[0], Tensor) or found[0].array.size != 1:
                return False
            if not any(np.isclose(float(found[0].array.reshape(-1)[0]), one, 1e-4) for one in want):
                return False
    return True


def loss_is_right(student: Student, top_k: int) -> bool:
    """Whether a loss without padding is right where each of four experts is some token's first."""
    logits = (normal(6, 4) + 5 * np.eye(6, 4)).astype(np.float32)
    shares = softmax(logits)
    picked = shares >= np.sort(shares, -1)[:, -top_k, None]
    want = 4 * float((picked.mean(0) * shares.mean(0)).sum())
    call = partial(student.call, "mlp.load_balancing_loss", [Tensor.of(logits)], 4, top_k)
    return any(
        isinstance(one, Tensor) and one.shape == () and np.isclose(float(one.array), want, 1e-4)
        for one in answers(student, call)
    )


# What such a loss may be: of probabilities, of what was chosen, and of which tokens are no padding.
Kept = NDArray[np.bool_]


def masked_shares(shares: Array, picked: Array, keep: Kept) -> list[float]:
    loss = 4 * float((picked[keep].mean(0) * shares.mean(0)).sum())
    return [loss, loss * len(keep) / keep.sum()]


def masked_probabilities(shares: Array, picked: Array, keep: Kept) -> list[float]:
    loss = 4 * float((picked.mean(0) * shares[keep].mean(0)).sum())
    return [loss, loss * len(keep) / keep.sum()]


def zeroed_padding(shares: Array, picked: Array, keep: Kept) -> list[float]:
    shares, picked = np.where(keep[:, None], shares, 1 / 4), picked.copy()
    found = []
    for chosen in [*combinations(range(4), 2), range(4)]:
        picked[~keep] = np.isin(np.arange(4), chosen)
        found.append(4 * float((picked.mean(0) * shares.mean(0)).sum()))
    return found


def mask_as_places(shares: Array, picked: Array, keep: Kept) -> list[float]:
    rows = np.arange(len(keep)) if keep.all() else keep.astype(int)
    return [4 * float((picked[rows].mean(0) * shares[rows].mean(0)).sum())]


def means_over_experts(shares: Array, picked: Array, keep: Kept) -> list[float]:
    each = 4 * picked.mean(-1) * shares.mean(-1)
    sums = [float(each.sum()), float(each[keep].sum())]
    return [*sums, sums[0] / len(keep), sums[1] / len(keep)]


def with_coefficient(shares: Array, picked: Array, keep: Kept) -> list[float]:
    loss = 4 * float((picked[keep].mean(0) * shares[keep].mean(0)).sum())
    return [loss * share for share in (0.1, 0.01, 0.001)]


def token_by_token(shares: Array, picked: Array, keep: Kept) -> list[float]:
    each = 4 * (picked * shares).sum(-1)
    return [float(each.mean()), float(each[keep].mean()), float((each * keep).mean())]

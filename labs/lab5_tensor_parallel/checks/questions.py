"""How experiments of lab 5 ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    Named,
    Result,
    Student,
    StudentError,
    Tensor,
    answers,
    behaviour,
    cases,
    config,
)
from autograder.checks.experiments import near
from autograder.reference.cases import Case
from autograder.sandbox.ranks import RankResult

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


# ---- the exercises

QK, ROWS, HEAD, TURN = "lab5.qkv", "lab5.row", "lab5.head_norm", "lab5.rotate"
FLAT, ATTEND, MERGED, ACT = (
    "lab5.flat_attention",
    "lab5.attention",
    "lab5.merged",
    "lab5.silu_and_mul",
)
MLP, NORM, LAYER, LOAD = "lab5.mlp", "lab5.norm", "lab5.layer", "lab5.load"
EMBED, LM_HEAD, ROTARY = "lab5.embedding", "lab5.lm_head", "lab5.rotary"
WHOLE = "lab5.causal_lm"


def norm_pair(student: Student, case: Case) -> Result:
    """What the norm gives beside a residual."""
    sizes, dtype = (case["x"].shape[-1], case["eps"]), case.values["dtype"]
    norm = student.new("mlp.RMSNorm", *sizes, weights=case.weights, dtype=dtype)
    return norm(case["x"], case["residual"])


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
        return "KeyError" if error.is_a("KeyError") else error.type
    return ""


def parameters_listed(
    student: Student, case: Case, path: str = "model.Qwen3ForCausalLM"
) -> set[str]:
    """The names of the parameters of a whole model that is made of stand-ins."""
    names = "Qwen3Attention", "Row", "Qwen3MLP", "Qwen3DecoderLayer", "Norm"
    stand_ins = [Named(f"labs.given.parallel.StandIn{name}") for name in names]

    def call() -> Result:
        parts = student.new("labs.given.parallel.Parts", *stand_ins)
        model = student.new(path, config(case.config), parts)
        return student.call("labs.given.parallel.parameters_of", model)

    for found in answers(student, call):
        return set(found) if isinstance(found, dict) else set()
    return set()


def shares_mlp(student: Student, case: Case) -> bool:
    """Whether the last of three layers alone has a down projection, and each an attention."""
    names = parameters_listed(student, case, "model.Qwen3Model")
    down, out = (
        [layer for layer in range(3) if f"layers.{layer}.{module}.weight" in names]
        for module in ("mlp.down_proj", "self_attn.o_proj")
    )
    return down == [2] and out == [0, 1, 2]


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


# ---- experiments in a line

QKV = "attention.QKVParallelLinear"
MERGED_PATH, TABLE_PATH = "mlp.MergedColumnParallelLinear", "model.VocabParallelEmbedding"
ROW = "attention.RowParallelLinear"


Experiment = Callable[[Student, Case], bool]


def shown(mistake: str, exercise: str, recipe: str, experiment: Experiment) -> Experiment:
    """An experiment in one line, to be kept under a name that begins with ``behaves_``."""

    @behaviour(mistake, exercise)
    @cases(recipe)
    def behaves(student: Student, case: Case) -> bool:
        return experiment(student, case)

    return behaves


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

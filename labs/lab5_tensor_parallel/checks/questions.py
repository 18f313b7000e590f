"""How experiments of lab 5 ask, and the simplest call of every exercise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
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
from autograder.checks.experiments import near
from autograder.reference.cases import Case
from autograder.sandbox.ranks import RankResult
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
WHOLE = "lab5.causal_lm"

# Of every exercise: the recipe of its simplest call, and what that call should give.
SIMPLEST = {
    QK: ("qkv_alone", "1.0.y"),
    ROWS: ("row", "y"),
    HEAD: ("head_norm", "y"),
    TURN: ("rotation", ""),
    FLAT: ("flat_core", "y"),
    ATTEND: ("attention_core", "y"),
    MERGED: ("merged", "1.0.y"),
    ACT: ("activation", "y"),
    MLP: ("mlp_standing", "y"),
    EMBED: ("embedding_alone", "y"),
    LM_HEAD: ("lm_head", "y"),
    YARN: ("yarn", "y"),
    NORM: ("norm", ""),
    LAYER: ("layers", ""),
    ROTARY: ("rotary_plain", ""),
}


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


QKV = "attention.QKVParallelLinear"
MERGED_PATH, TABLE_PATH = "mlp.MergedColumnParallelLinear", "model.VocabParallelEmbedding"
ROW = "attention.RowParallelLinear"
PATHS = {
    QK: QKV, ROWS: ROW, MERGED: MERGED_PATH, EMBED: TABLE_PATH, LM_HEAD: "model.ParallelLMHead",
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

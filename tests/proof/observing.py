"""What a hand-in of lab 2 shows on the public cases, run in this process, and how far two differ.

The calls are the plainest that checks make; functions beside ``Qwen3Attention`` count as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from autograder.course import labfile
from autograder.reference import cases
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.student import GivenConfig, Result, Student
from autograder.sandbox.transport import Sources
from autograder.wire.messages import Tensor

PUBLIC = cases.load(labfile.find_lab("2") / "cases.safetensors")
# Relative Frobenius errors. Narrow types round differently when the steps are ordered otherwise;
# near position 40,000 the last bit of a frequency is that much of an angle.
LIMITS = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 1e-2, "farthest": 1e-3}

# By (recipe, number of the call): the plain data that came back, or the stage of an error.
Seen = dict[tuple[str, int], Any]


def _attention(student: Student, case: Case) -> Iterator[Result]:
    names = {"attention_mask": "mask", "position_ids": "positions"}
    given = {name: case[key] for name, key in names.items() if key in case.tensors}
    attention = student.new(
        "attention.Qwen3Attention",
        GivenConfig(case.config),
        weights=case.weights,
        dtype=case.values.get("dtype", "float32"),
    )
    yield attention(case["x"], echo=True, **given)
    if given:
        yield attention(case["x"], echo=True)


def _tables(student: Student, case: Case) -> Iterator[Result]:
    yield student.new("attention.RotaryEmbedding", GivenConfig(case.config))(case["positions"])
    if "other_theta" in case.values:
        config = dict(case.config) | {"rope_theta": case["other_theta"]}
        yield student.new("attention.RotaryEmbedding", GivenConfig(config))(case["positions"])


def _rotation(student: Student, case: Case) -> Iterator[Result]:
    for prefix in ("", "row_"):
        tables = case[f"{prefix}cos"], case[f"{prefix}sin"]
        yield student.call("attention.apply_rotary_pos_emb", case["q"], case["k"], *tables)


def _rotate_half(student: Student, case: Case) -> Iterator[Result]:
    yield student.call("attention.rotate_half", case["x"])


def _repeating(student: Student, case: Case) -> Iterator[Result]:
    yield student.call("attention.repeat_kv", case["x"], case["times"])


def _mlp(student: Student, case: Case) -> Iterator[Result]:
    config, dtype = GivenConfig(case.config), case.values.get("dtype", "float32")
    yield student.new("mlp.Qwen3MLP", config, weights=case.weights, dtype=dtype)(
        case["x"], echo=True
    )


def _accounting(student: Student, case: Case) -> Iterator[Result]:
    for model in case["models"]:
        config = GivenConfig(model["config"])
        yield student.call("mlp.count_parameters", config)
        for dtype in ("float32", "float16", "bfloat16"):
            yield student.call("mlp.weight_bytes", config, dtype)
            yield student.call("mlp.kv_cache_bytes", config, dtype=dtype, tokens=7, batch=5)


CALLS: dict[str, dict[str, Callable[[Student, Case], Iterator[Result]]]] = {
    "attention.py": {
        "attention": _attention,
        "tables": _tables,
        "rotation": _rotation,
        "rotate": _rotate_half,
        "repeating": _repeating,
    },
    "mlp.py": {"mlp": _mlp, "accounting": _accounting, "published": _accounting},
}


def observe(sources: Mapping[str, str], file: str) -> Seen:
    """What ``file`` of a hand-in shows in all calls of the public cases."""
    local = LocalTransport(Sources(sources))
    student, seen = Student(local), Seen()
    try:
        with torch.backends.mkldnn.flags(enabled=False):  # as in workers
            for case in PUBLIC:
                calls = CALLS[file].get(case.recipe.split("_")[0])
                if calls is not None:
                    for number, value in enumerate(_values(calls(student, case))):
                        seen[case.name, number] = value
    finally:
        local.close()
    return seen


def twice(sources: Mapping[str, str], file: str) -> tuple[Any, Any]:
    """The first case of ``Qwen3Attention`` or ``Qwen3MLP``, called twice without a new start."""
    local = LocalTransport(Sources(sources))
    student, recipe = Student(local), f"{file.removesuffix('.py')}_core"
    try:
        case = next(case for case in PUBLIC if case.recipe == recipe)
        path = {"attention.py": "attention.Qwen3Attention", "mlp.py": "mlp.Qwen3MLP"}[file]
        module = student.new(path, GivenConfig(case.config), weights=case.weights)
        first, second = module(case["x"]), module(case["x"])
        return first.value, second.value
    finally:
        local.close()


def _values(calls: Iterator[Result]) -> Iterator[Any]:
    try:
        for result in calls:
            yield result.value
    except StudentError as error:
        yield f"raises: {error.stage}"  # the calls that follow need what this one made


def distance(one: Any, two: Any, limit: float) -> float:
    """The largest relative Frobenius error of ``two`` to ``one`` over ``limit``; inf if unlike.

    What is not finite in one must not be so in the other; infinite or NaN is all the same.
    """
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return _apart(one, two) / limit
    if type(one) is not type(two):
        return np.inf
    if isinstance(one, dict):
        one, two = sorted(one.items()), sorted(two.items())
    if isinstance(one, list | tuple):
        if len(one) != len(two):
            return np.inf
        return max([distance(a, b, limit) for a, b in zip(one, two, strict=True)], default=0.0)
    return 0.0 if one == two else np.inf


def _apart(one: Tensor, two: Tensor) -> float:
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return np.inf
    a, b = one.array.astype(np.float64), two.array.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return np.inf
    gap, size = np.linalg.norm(a[finite] - b[finite]), np.linalg.norm(a[finite])
    return float(gap / size) if size else float(gap)


def distances(known: Seen, made: Seen) -> dict[tuple[str, int], float]:
    """Per call, how far two hand-ins are from each other: up to 1 is rounding."""
    found = {}
    for name, number in known.keys() | made.keys():
        call = name, number
        kind = next((one for one in LIMITS if f"_{one}-" in name), "float32")
        found[call] = distance(known.get(call), made.get(call), LIMITS[kind])
    return found

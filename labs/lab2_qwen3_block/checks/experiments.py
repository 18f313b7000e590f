"""What experiments of lab 2 ask of modules and of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autograder.checks.expect import answers, config, expect_close, works
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab2_qwen3_block.checks.attention_calls import attention_of

COUNT = "mlp.count_parameters"


def attends(student: Student, case: Case, *given: Any, **named: Any) -> bool:
    """Whether attention gives the case's answer to its input and these arguments."""

    def right() -> None:
        expect_close(attention_of(student, case)(case["x"], *given, **named), case["y"], case)

    return works(student, right)


def loads(
    student: Student, path: str, settings: Mapping[str, Any], **shapes: tuple[int, ...]
) -> bool:
    """Whether a module of these settings takes weights of these shapes."""
    weights = {
        f"{name}.weight": Tensor.of(np.zeros(shape, np.float32)) for name, shape in shapes.items()
    }
    return works(student, lambda: student.new(path, config(settings), weights=weights))


def loads_heads(student: Student, settings: Mapping[str, Any], width: int, head_dim: int) -> bool:
    """Whether attention takes projections to ``width`` and norms of ``head_dim``."""
    hidden, kv_width = settings["hidden_size"], settings["num_key_value_heads"] * head_dim
    narrow, wide = (kv_width, hidden), (width, hidden)
    return loads(
        student, "attention.Qwen3Attention", settings,
        q_proj=wide, k_proj=narrow, v_proj=narrow, o_proj=wide[::-1],
        q_norm=(head_dim,), k_norm=(head_dim,),
    )  # fmt: skip


def drawn(settings: Mapping[str, Any], heads: int, kv_heads: int) -> dict[str, Tensor]:
    """Random weights of an attention."""
    dice, hidden, width = np.random.default_rng(0), settings["hidden_size"], settings["head_dim"]
    shapes = {
        "q_proj": (heads * width, hidden), "k_proj": (kv_heads * width, hidden),
        "v_proj": (kv_heads * width, hidden), "o_proj": (hidden, heads * width),
        "q_norm": (width,), "k_norm": (width,),
    }  # fmt: skip
    return {
        f"{name}.weight": Tensor.of(dice.standard_normal(shape).astype(np.float32))
        for name, shape in shapes.items()
    }


def tells(student: Student, case: Case, path: str, wanted: Sequence[Any], *given: Any) -> bool:
    """Whether every published model gets the number that is told of it."""
    asked = (partial(student.call, path, config(one["config"]), *given) for one in case["models"])
    found = answers(student, *asked)
    if path == COUNT:
        found = [value.get("attention") if isinstance(value, dict) else None for value in found]
    return bool(found == wanted)


def square_counts(case: Case) -> tuple[list[int], list[int]]:
    """Parameters of all projections, were o_proj square in each model, or q_proj, too."""
    one, both = [], []
    for model in case["models"]:
        c = model["config"]
        layers, hidden, head_dim = c["num_hidden_layers"], c["hidden_size"], c["head_dim"]
        right = model["counts"]["attention"]
        more = layers * hidden * (hidden - c["num_attention_heads"] * head_dim)
        one.append(right + more)
        both.append(right + 2 * more)
    return one, both

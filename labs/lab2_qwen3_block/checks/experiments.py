"""What experiments of lab 2 ask of modules and of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autograder.checks.expect import (
    answers,
    config,
    expect_close,
    expect_items,
    expect_same,
    expect_tensor,
    works,
)
from autograder.checks.experiments import near
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError
from autograder.sandbox.student import Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab2_qwen3_block.checks.attention_calls import attention_of

COUNT = "mlp.count_parameters"
WHY = Text("the two should agree.", "两者应当一致。")


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


def tables_of(student: Student, case: Case, *positions: int) -> Any:
    """What a new module gives for these positions."""
    tables = student.new("attention.RotaryEmbedding", config(case.config))
    return tables(Tensor.of(np.array(positions))).value


def has_whole_exponents(student: Student, case: Case) -> bool:
    """Whether the tables are those of exponents 0, or of 0 once and then -1."""
    far, width, theta = 1_000, case.config["head_dim"], case.config["rope_theta"]
    value = tables_of(student, case, far)
    cos = value[0] if isinstance(value, (tuple, list)) and value else None
    later = np.arange(width // 2) > 0
    rows = (np.cos(far * theta ** (later * e)) for e in (0.0, -1.0))
    return isinstance(cos, Tensor) and near(cos.array, *(np.tile(row, 2)[None] for row in rows))


def guesses_width(student: Student, case: Case) -> bool:
    """Whether the MLP takes weights of a width that only hidden_size tells, or a rounded one."""
    hidden, width = case.config["hidden_size"], case.config["intermediate_size"]
    guesses = [n * hidden for n in (2, 3, 4, 1)] + [8 * hidden // 3, round(8 * hidden / 3)]
    rounded = [
        -(-size // step) * step for step in (8, 32, 64, 128, 256) for size in (width, *guesses)
    ]
    return any(
        loads(
            student, "mlp.Qwen3MLP", case.config,
            gate_proj=(guess, hidden), up_proj=(guess, hidden), down_proj=(hidden, guess),
        )
        for guess in dict.fromkeys((*guesses, *rounded))
        if guess != width
    )  # fmt: skip


def counts_guessed_heads(student: Student, case: Case) -> bool:
    """Whether the cache of each model is told as that of heads of hidden_size // heads."""
    wanted = []
    for model in case["models"]:
        c, right = model["config"], model["cache"]["float32"]
        wanted.append(right // c["head_dim"] * (c["hidden_size"] // c["num_attention_heads"]))
    given = case["models"][0]["tokens"], case["models"][0]["batch"], "float32"
    return tells(student, case, "mlp.kv_cache_bytes", wanted, *given)


def takes_tables(student: Student, case: Case) -> bool:
    """Whether all that attention wants besides its weights has the shape of RoPE's tables."""
    try:
        _ = attention_of(student, case)(case["x"]).value
    except StudentError as error:
        extra = () if error.lacking else error.extra
    else:
        return False
    width, longest = case.config["head_dim"], case.config.get("max_position_embeddings", 40_960)
    half = width // 2
    shapes = (half,), (1, half), (longest, half), (longest, width)

    def fits(shape: tuple[int, ...]) -> bool:
        table = Tensor.of(np.zeros(shape, np.float32))
        more = {name.replace(".", "__"): table for name in extra}
        return works(student, lambda: attention_of(student, case, **more)(case["x"]))

    return bool(extra) and any(map(fits, shapes))


def norm_is_upside_down(student: Student, case: Case) -> bool:
    """Whether attention multiplies by the rms in the place of dividing by it."""

    def differs(name: str, by: float) -> bool:
        array = case.weights[name].array * np.float32(by)
        changed = {name.replace(".", "__"): Tensor.of(array)}
        other = attention_of(student, case, **changed)(case["x"])

        def same() -> None:
            larger = attention_of(student, case, q_proj__weight=twice)(case["x"])
            expect_same(other, larger, case, WHY)

        return not works(student, same)

    twice = Tensor.of(case.weights["q_proj.weight"].array * np.float32(2))
    return differs("q_norm.weight", 2) and not differs("q_norm.weight", 4)


def has_one_softmax(student: Student, case: Case) -> bool:
    """Whether the weights of a whole head sum to one, and not those of each query."""
    tokens = np.arange(1, case["x"].shape[1] + 1)
    wanted = case["y"].array * (tokens / tokens.sum())[:, None]
    found = answers(student, lambda: attention_of(student, case)(case["x"]))
    return any(isinstance(one, Tensor) and near(one.array, wanted) for one in found)


def is_turned_back(student: Student, case: Case) -> bool:
    """Whether the rotation is right where cos and sin, or the sign of sin, are exchanged."""
    q, k, cos, sin = (case[name] for name in ("q", "k", "cos", "sin"))

    def right(*tables: Tensor) -> bool:
        def close() -> None:
            result = student.call("attention.apply_rotary_pos_emb", q, k, *tables)
            for got, x in zip(expect_items(result, 2, case), (q, k), strict=True):
                first, second = np.split(x.array, 2, axis=-1)
                turned = np.concatenate((-second, first), axis=-1)
                wanted = x.array * cos.array + turned * sin.array
                expect_close(got, Tensor.of(wanted.astype(np.float32)), case)

        return works(student, close)

    back = Tensor.of(-sin.array)
    return not right(cos, sin) and (right(sin, cos) or right(cos, back))


def repeats_numbers(student: Student, case: Case) -> bool:
    """Whether ``repeat_kv`` repeats each number, in the shape that whole heads would have."""
    x, times = case["x"].array, case["times"]
    wanted = np.repeat(x, times).reshape(len(x), -1, *x.shape[2:])
    found = answers(student, lambda: student.call("attention.repeat_kv", case["x"], times))
    return times > 1 and any(
        isinstance(one, Tensor) and one.shape == wanted.shape and near(one.array, wanted)
        for one in found
    )


def turned_by_heads(student: Student, case: Case) -> bool:
    """Whether tokens are turned by the number of a head instead of their positions."""
    heads, settings = 4, {**case.config, "num_attention_heads": 4, "rope_theta": 100.0}

    def attention_of(kv_heads: int, **instead: Tensor) -> Handle:
        made = {**settings, "num_key_value_heads": kv_heads}
        weights = drawn(made, heads, kv_heads) | instead
        return student.new("attention.Qwen3Attention", config(made), weights=weights)

    def answer(attention: Handle, tokens: int, *, turned: bool = False, apart: int = 1) -> Result:
        dice = np.random.default_rng(tokens)
        x = dice.standard_normal((1, tokens, settings["hidden_size"])).astype(np.float32)
        seen = Tensor.of(np.zeros((1, 1, tokens, tokens), np.float32))
        x = x[:, ::-1].copy() if turned else x
        return attention(Tensor.of(x), seen, Tensor.of(np.arange(tokens) * apart))

    def values(result: Result) -> np.ndarray[Any, Any]:
        return expect_tensor(result, case).array

    def turn(kv_heads: int, tokens: int) -> None:
        attention = attention_of(kv_heads)
        first, turned = answer(attention, tokens), answer(attention, tokens, turned=True)
        expect_close(first, Tensor.of(values(turned)[:, ::-1].copy()), case)

    def stretch() -> None:
        attention = attention_of(2)
        expect_same(answer(attention, 7, apart=5), answer(attention, 7), case, WHY)

    def average() -> None:
        """Where queries are zero, all tokens see the same mean: they do look at each other."""
        width = heads * settings["head_dim"]
        nothing = Tensor.of(np.zeros((width, settings["hidden_size"]), np.float32))
        result = answer(attention_of(heads, **{"q_proj.weight": nothing}), heads)
        expect_close(result, Tensor.of(values(result)[:, ::-1].copy()), case)

    if not works(student, average) or not works(student, lambda: turn(heads, heads)):
        return False
    if not works(student, lambda: values(answer(attention_of(heads), 7))):
        return True
    return works(student, lambda: turn(2, 7)) and not works(student, stretch)

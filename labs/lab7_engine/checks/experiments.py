"""What experiments of lab 7 ask, and how they read what comes back; None is no answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import Case, Handle, Literal, Result, Student, Tensor, answers
from labs.lab7_engine.checks.paged import fork_of, table_of
from labs.lab7_engine.checks.serving import GIVEN

Array = NDArray[np.float64]
ROWS = 4  # tokens in a block


def first(student: Student, call: Callable[[], Result]) -> Any:
    """What a call gives, or None where it raises."""
    return next(iter(answers(student, call)), None)


def near(got: Any, want: Any, limit: float = 1e-4) -> bool:
    """Whether it is a tensor, or an array, of just these numbers."""
    array = got.array if isinstance(got, Tensor) else got
    return (
        isinstance(array, np.ndarray)
        and array.shape == np.shape(want)
        and np.allclose(array, want, rtol=limit, atol=limit / 100)
    )


def bfloat16(values: Any) -> Array:
    """The bfloat16 numbers next to these."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.int64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return np.asarray(rounded.astype(np.uint32).view(np.float32).astype(np.float64))


def in_bfloat16(values: Any) -> Tensor:
    """Numbers that bfloat16 holds exactly."""
    array = np.ascontiguousarray(values, dtype=np.float32)
    halves = (array.view(np.uint32) >> 16).astype(np.uint16)
    return Tensor("bfloat16", array.shape, halves.tobytes())


def pool_of_six(student: Student) -> Handle:
    """Six blocks of four tokens, with one kv head of two."""
    return student.new("attention.BlockPool", 6, ROWS, 1, 2)


def stored(student: Student, table: Handle, count: int) -> None:
    """Append so many tokens; nothing runs yet."""
    tokens = Tensor.of(np.ones((count, 1, 2), np.float32))
    student.call(table, tokens, tokens, method="append")


def blocks_for(student: Student, count: int) -> int | None:
    """How many blocks a new table lists for so many tokens."""

    def call() -> Result:
        table = table_of(student, pool_of_six(student))
        stored(student, table, count)
        return student.get(table, "blocks")

    blocks = first(student, call)
    return len(blocks) if isinstance(blocks, (list, tuple)) else None


def forked(student: Student, count: int) -> tuple[list[int], list[int], int] | None:
    """A table of so many tokens whose fork, of the same blocks, takes one more.

    Gives the blocks of both, and how many owners the table's last block has then.
    """
    pool = pool_of_six(student)
    table = table_of(student, pool)

    def begin() -> Result:
        stored(student, table, count)
        return student.get(table, "blocks")

    own = first(student, begin)
    if not isinstance(own, list) or len(own) != 1:
        return None
    fork = fork_of(student, table)
    same = first(student, lambda: student.get(fork, "blocks"))
    shared = first(student, lambda: student.call(pool, own[-1], method="references"))
    if same != own or shared != 2:
        return None

    def go_on() -> Result:
        stored(student, fork, 1)
        return student.get(fork, "blocks")

    after = first(student, go_on)
    owners = first(student, lambda: student.call(pool, own[-1], method="references"))
    if not isinstance(after, list) or not isinstance(owners, int):
        return None
    return own, after, owners


def read_places(student: Student, context: int) -> Array | None:
    """What each of 12 places counts for one query whose table is block 2, then block 0."""
    q = np.zeros((1, 1, 12), np.float32)
    keys = np.zeros((3, ROWS, 1, 12), np.float32)
    values = np.eye(12, dtype=np.float32).reshape(3, ROWS, 1, 12)
    whole = (np.array(rows, np.int64) for rows in ([[2, 0, -1]], [context], [0, 1]))
    given = [Tensor.of(array) for array in (q, keys, values, *whole)]
    got = first(student, lambda: student.call("attention.paged_attention", *given))
    if not isinstance(got, Tensor) or got.shape != q.shape:
        return None
    return np.asarray(got.array[0, 0].astype(np.float64))


def places(*blocks: Sequence[int]) -> Array:
    """Equal shares of these places, ``(block, how many)`` each."""
    counts = np.zeros((3, ROWS))
    for block, count in blocks:
        counts[block, :count] = 1
    return np.asarray(counts.ravel() / counts.sum())


def attended(
    student: Student, x: NDArray[np.float32], at: Sequence[int]
) -> tuple[Callable[[], Result], Handle]:
    """A call of attention, whose weights are all units, on tokens at positions; and its pool."""
    unit = Tensor.of(np.eye(4, dtype=np.float32))
    weights = {f"{name}_proj.weight": unit for name in "qkvo"}
    weights |= {f"{name}_norm.weight": Tensor.of(np.ones(4, np.float32)) for name in "qk"}
    attention = student.new("attention.Qwen3Attention", 4, 1, 1, 4, 1e-6, 100.0, weights=weights)
    pool = student.new("attention.BlockPool", 1, ROWS, 1, 4)
    ends = Tensor.of(np.array([0, len(x)], np.int64))
    given = Tensor.of(np.array(at, np.int64)), Tensor.of(x), [table_of(student, pool)], ends
    return lambda: attention(*given), pool


def stored_values(student: Student, x: NDArray[np.float32], at: Sequence[int]) -> Any:
    """What attention stores as values of tokens at positions."""
    call, pool = attended(student, x, at)
    if not answers(student, call):
        return None
    got = first(student, lambda: student.get(pool, "values"))
    fits = isinstance(got, Tensor) and got.array.shape == (1, ROWS, 1, 4)
    return got.array[0, : len(x), 0] if fits else None


def scales_of(student: Student, weight: Tensor, *group: int) -> Any:
    """The scales of rows, or of groups of so many numbers, in float64."""
    path = "mlp.quantize_groups" if group else "mlp.quantize_per_channel"
    made = first(student, lambda: student.call(path, weight, *group))
    if not isinstance(made, (tuple, list)) or len(made) != (3 if group else 2):
        return None
    return made[1].array.astype(np.float64) if isinstance(made[1], Tensor) else None


def scheduled(
    student: Student, sizes: tuple[int, int, int, int], *prompts: int
) -> dict[int, dict[int, int]] | None:
    """By step, how many tokens of each request are computed; all arrive at once.

    Args:
        student: whose scheduler it is.
        sizes: blocks, tokens in a block, budget, requests at a time.
        prompts: lengths; each request asks for five new tokens.
    """
    blocks, size, budget, most = sizes
    cache = student.new(f"{GIVEN}.PlainCache", blocks, size)
    scheduler = student.new("engine.Scheduler", cache, budget, most)
    rows = [[i, [5 + i] * length, 5, 0, 0] for i, length in enumerate(prompts)]
    told = first(student, lambda: student.call(f"{GIVEN}.drive", scheduler, cache, Literal(rows)))
    works = told.get("works") if isinstance(told, dict) else None
    if not isinstance(works, Tensor) or works.array.ndim != 2:
        return None
    found: dict[int, dict[int, int]] = {}
    for step, request, _, tokens, *_ in works.array.tolist():
        found.setdefault(int(step), {})[int(request)] = int(tokens)
    return found


def stopped_text(student: Student, stop: str) -> tuple[str, bool] | None:
    """The text of a request whose only word is abc, and whether the scheduler hears of a stop."""
    table = np.array([[0.0, 1.0]], np.float32)
    model = student.new(f"{GIVEN}.PagedModel", Tensor.of(table), 1, ROWS)
    script = [[0, [[0, 0, [0], [0], True]], [0]]]
    scheduler = student.new(f"{GIVEN}.ScriptedScheduler", Literal(script))
    engine = student.new("engine.Engine", model, scheduler, ["x", "abc"])
    rows = Literal([[0, [0], 1, 0, [stop], 0.0, 0]])
    texts = first(student, lambda: student.call(f"{GIVEN}.texts", engine, rows))
    told = first(student, lambda: student.get(scheduler, "told"))
    if not isinstance(texts, dict) or not isinstance(told, list) or len(told) != 2:
        return None
    return str(texts.get("0")), told[1] == [[0]]


def accepted(
    student: Student, tokens: Sequence[int], q: Any, p: Any, uniforms: Sequence[float]
) -> list[int] | None:
    """The tokens that come out of ``accept``."""
    given = [Tensor.of(np.array(one, np.float64)) for one in (q, p, uniforms)]
    drafted = Tensor.of(np.array(tokens, np.int64))
    return numbers(first(student, lambda: student.call("engine.accept", drafted, *given)))


def numbers(value: Any) -> list[int] | None:
    """Whole numbers out of a tensor or a list; none where anything else came."""
    if isinstance(value, Tensor):
        value = value.array.reshape(-1).tolist()
    if not isinstance(value, (list, tuple)):
        return None
    made = [
        one.array.item() if isinstance(one, Tensor) and one.array.size == 1 else one
        for one in value
    ]
    right = all(
        isinstance(one, int) or (isinstance(one, float) and one.is_integer()) for one in made
    )
    return [int(one) for one in made] if right else None


def speculated(student: Student, text: Sequence[int]) -> list[int] | None:
    """Two guesses at temperature 0, where both models say n + 1 after n, and 0 after 7."""
    after = student.new("torch.asarray", Tensor.of(np.roll(np.eye(8, dtype=np.float32), 1, 1)))
    model = student.new("builtins.getattr", after, "__getitem__")
    uniforms = Tensor.of(np.full(5, 0.5))
    given = model, model, Literal(list(text)), 2, 0.0, uniforms
    return numbers(first(student, lambda: student.call("engine.speculative_step", *given)))


def layer_of(student: Student, case: Case, path: str) -> Handle:
    """A layer with the case's buffers."""
    group = (case["group"],) if path == "mlp.GroupQuantizedLinear" else ()
    return student.new(path, *case["sizes"], *group, case["block"], weights=case.weights)

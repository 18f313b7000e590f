"""What experiments of lab 7 ask, and how they read what comes back; None is no answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    Handle,
    Literal,
    Result,
    Student,
    StudentError,
    Tensor,
    answers,
)
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


def appended(student: Student, table: Handle, count: int) -> Any:
    """The blocks of a table after so many tokens more."""

    def call() -> Result:
        tokens = Tensor.of(np.ones((count, 1, 2), np.float32))
        student.call(table, tokens, tokens, method="append")
        return student.get(table, "blocks")

    return first(student, call)


def blocks_for(student: Student, count: int) -> int | None:
    """How many blocks a new table lists for so many tokens."""
    blocks = appended(student, table_of(student, pool_of_six(student)), count)
    return len(blocks) if isinstance(blocks, (list, tuple)) else None


def forked(student: Student, count: int) -> tuple[list[int], list[int], int] | None:
    """A table of so many tokens whose fork, of the same blocks, takes one more.

    Gives the blocks of both, and how many owners the table's last block has then.
    """
    pool = pool_of_six(student)
    table = table_of(student, pool)
    own = appended(student, table, count)
    if not isinstance(own, list) or len(own) != 1:
        return None
    fork = fork_of(student, table)
    same = first(student, lambda: student.get(fork, "blocks"))
    shared = first(student, lambda: student.call(pool, own[-1], method="references"))
    if same != own or shared != 2:
        return None
    after = appended(student, fork, 1)
    owners = first(student, lambda: student.call(pool, own[-1], method="references"))
    if not isinstance(after, list) or not isinstance(owners, int):
        return None
    return own, after, owners


def copied(student: Student) -> tuple[bool, bool] | None:
    """Whether all four keys, and values, stand in the block that a fork of three wrote into."""
    pool = pool_of_six(student)
    table = table_of(student, pool)
    own, after = appended(student, table, 3), appended(student, fork_of(student, table), 1)
    if not isinstance(own, list) or not isinstance(after, list) or len(after) != 1 or after == own:
        return None
    whole = [first(student, partial(student.get, pool, name)) for name in ("keys", "values")]
    if not all(isinstance(one, Tensor) and one.shape == (6, ROWS, 1, 2) for one in whole):
        return None
    keys, values = (bool((one.array[after[0]] == 1).all()) for one in whole)
    return keys, values


def written_alone(student: Student) -> tuple[list[int], list[int], list[int]] | None:
    """Two blocks are forked, the fork writes into the second, then the table that was forked does.

    Gives the blocks of the table before, those of the fork, and those of the table at the end; none
    if it has not owned its second block alone in between.
    """
    pool = pool_of_six(student)
    table = table_of(student, pool)

    own = appended(student, table, 6)
    copy = appended(student, fork_of(student, table), 1)
    if not _two(own) or not _two(copy):
        return None
    owners = first(student, lambda: student.call(pool, own[1], method="references"))
    after = appended(student, table, 1)
    return (own, copy, after) if owners == 1 and _two(after) else None


def _two(blocks: Any) -> bool:
    both = isinstance(blocks, list) and len(blocks) == 2
    return both and all(isinstance(block, int) for block in blocks)


def read_places(student: Student, context: int, table: Sequence[int] = (2, 0)) -> Array | None:
    """What each of 12 places counts for one query whose table is block 2, then block 0."""
    q = np.zeros((1, 1, 12), np.float32)
    keys = np.zeros((3, ROWS, 1, 12), np.float32)
    values = np.eye(12, dtype=np.float32).reshape(3, ROWS, 1, 12)
    whole = (np.array(rows, np.int64) for rows in ([[*table, -1]], [context], [0, 1]))
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


def attending(
    student: Student, theta: float = 100.0
) -> tuple[Callable[[NDArray[np.float32], Sequence[int]], Result], Handle]:
    """Attention, whose weights are all units, of tokens at positions, call by call; its pool."""
    unit = Tensor.of(np.eye(4, dtype=np.float32))
    weights = {f"{name}_proj.weight": unit for name in "qkvo"}
    weights |= {f"{name}_norm.weight": Tensor.of(np.ones(4, np.float32)) for name in "qk"}
    attention = student.new("attention.Qwen3Attention", 4, 1, 1, 4, 1e-6, theta, weights=weights)
    pool = student.new("attention.BlockPool", 1, ROWS, 1, 4)
    table = table_of(student, pool)

    def call(x: NDArray[np.float32], at: Sequence[int]) -> Result:
        places, ends = (Tensor.of(np.array(one, np.int64)) for one in (at, [0, len(x)]))
        return attention(places, Tensor.of(x), [table], ends)

    return call, pool


def stored(
    student: Student, what: str, x: NDArray[np.float32], at: Sequence[int], theta: float = 100.0
) -> Any:
    """What attention stores as keys, or values, of tokens at positions."""
    call, pool = attending(student, theta)
    if not answers(student, lambda: call(x, at)):
        return None
    got = first(student, lambda: student.get(pool, what))
    fits = isinstance(got, Tensor) and got.array.shape == (1, ROWS, 1, 4)
    return got.array[0, : len(x), 0] if fits else None


def last_output(student: Student, x: NDArray[np.float32], at: Sequence[int]) -> Any:
    """What attention gives for the last token, in a call behind that of the others."""
    call, _ = attending(student)
    before = answers(student, lambda: call(x[:-1], at[:-1]))
    return first(student, lambda: call(x[-1:], at[-1:])) if before else None


def turned(x: NDArray[np.float32], at: Sequence[int], step: float = 1.0) -> Array:
    """Four numbers a token, rotated as keys of positions are with a base of 100; times a step."""
    angles = step * np.array(at)[:, None] * np.array([1.0, 0.1])
    cos, sin = np.cos(angles), np.sin(angles)
    left, right = x[:, :2], x[:, 2:]
    return np.concatenate((left * cos - right * sin, right * cos + left * sin), axis=1)


def scales_of(student: Student, weight: Tensor, *group: int) -> Any:
    """The scales of rows, or of groups of so many numbers, in float64."""
    path = "mlp.quantize_groups" if group else "mlp.quantize_per_channel"
    made = first(student, lambda: student.call(path, weight, *group))
    if not isinstance(made, (tuple, list)) or len(made) != (3 if group else 2):
        return None
    return made[1].array.astype(np.float64) if isinstance(made[1], Tensor) else None


def only_first_too_large(scales: Any, first: float, second: float, steps: int) -> bool:
    """Whether the first of two scales is at least twice too large, and the second one right."""
    if scales is None or scales.size != 2 or not near(scales.ravel()[1:], [second / steps]):
        return False
    return bool(scales.flat[0] > 2 * first / steps)


def driven(student: Student, sizes: Sequence[int], rows: Any, *, own: bool = False) -> Any:
    """What ``drive`` tells of requests, served to their end.

    Args:
        student: whose scheduler it is.
        sizes: blocks, tokens in a block, budget, requests at a time.
        rows: requests, as ``drive`` takes them.
        own: on the student's own cache, not on the stand-in.
    """
    blocks, size, budget, most = sizes
    cache = student.new("engine.PrefixCache" if own else f"{GIVEN}.PlainCache", blocks, size)
    scheduler = student.new("engine.Scheduler", cache, budget, most)
    return student.call(f"{GIVEN}.drive", scheduler, cache, Literal(rows)).value


def works_of(student: Student, sizes: Sequence[int], *prompts: int) -> list[list[int]] | None:
    """Works as ``drive`` lists them; prompts of such lengths, each with five new tokens to make."""
    rows = [[i, [5 + i] * length, 5, 0, 0] for i, length in enumerate(prompts)]
    told = None
    with suppress(StudentError):
        told = driven(student, sizes, rows)
    works = told.get("works") if isinstance(told, dict) else None
    if not isinstance(works, Tensor) or works.array.ndim != 2 or works.array.shape[1] != 7:
        return None
    return [[int(number) for number in row] for row in works.array.tolist()]


def scheduled(
    student: Student, sizes: Sequence[int], *prompts: int
) -> dict[int, dict[int, int]] | None:
    """By step, how many tokens of each request are computed; all arrive at once."""
    works = works_of(student, sizes, *prompts)
    if works is None:
        return None
    found: dict[int, dict[int, int]] = {}
    for step, request, _, tokens, *_ in works:
        found.setdefault(step, {})[request] = tokens
    return found


def story(student: Student, sizes: Sequence[int], *prompts: int) -> list[str]:
    """The same, a line for each step: in ``0:1! 1:3`` 0 gets a token, and a sample, 1 gets 3."""
    lines: dict[int, list[str]] = {}
    for step, request, _, tokens, _, sample, _ in works_of(student, sizes, *prompts) or ():
        lines.setdefault(step, []).append(f"{request}:{tokens}{'!' if sample else ''}")
    return [" ".join(lines[step]) for step in sorted(lines)]


def first_known(student: Student, chunk: int = 4) -> dict[int, int]:
    """In which step each beginning of a text, of so many tokens, is made known; none if not right.

    A prompt of 8 tokens and 5 new ones, in blocks of 3 and in chunks.
    """
    told = None
    with suppress(StudentError):
        told = driven(student, (6, 3, chunk, 2), [[0, [5, 6, 7, 8, 9, 5, 4, 3], 5, 0, 0]])
    if not isinstance(told, dict):
        return {}
    arrays = [told.get(name) for name in ("works", "tokens", "fills", "filled")]
    lists = [one.array.tolist() for one in arrays if isinstance(one, Tensor)]
    if len(lists) < len(arrays):
        return {}
    works, text, fills, filled = lists
    if [work[3] for work in works] != [chunk, 8 - chunk, 1, 1, 1, 1]:
        return {}
    known: dict[int, int] = {}
    for step, _, count in fills:
        if filled[:count] != text[:count] or count % 3:
            return {}
        known.setdefault(count, step)
        del filled[:count]
    return known


def refused(student: Student, tokens: int) -> bool | None:
    """Whether a request is refused whose computed tokens are so many; there is room for eight."""
    cache = student.new(f"{GIVEN}.PlainCache", 4, 2)
    scheduler = student.new("engine.Scheduler", cache, 8, 2)
    request = student.new(f"{GIVEN}.Request", 0, Literal((1, 2, 3, 4)), tokens - 3)
    try:
        student.call(scheduler, request, method="add")
        student.flush()
    except StudentError as error:
        return True if error.is_a("ValueError") else None
    return False


def raises_when_found(student: Student) -> bool:
    """Whether OutOfBlocks comes where a text finds all blocks that are left, and only there.

    At its arrival, nobody owns two of five blocks: just those that hold its first four tokens.
    """
    earlier = [[1, [1, 2, 3, 4], 1, 0, 0], [2, [7, 7, 8, 8], 4, 1, 0]]
    kinds = []
    for beginning in (1, 9):
        rows = [*earlier, [3, [beginning, *range(2, 9)], 1, 2, 0]]
        try:
            driven(student, (5, 2, 20, 3), rows, own=True)
        except StudentError as error:
            kinds.append("OutOfBlocks" if error.is_a("OutOfBlocks") else error.type)
        else:
            kinds.append("")
    return kinds == ["OutOfBlocks", ""]


def played(student: Student, blocks: int, *lines: Any) -> list[list[int]]:
    """What a student's cache of so many blocks, of two tokens each, answers to a script's lines."""
    cache = student.new("engine.PrefixCache", blocks, 2)
    script = Literal([list(line) for line in lines])
    said = first(student, lambda: student.call(f"{GIVEN}.play", cache, script))
    return said if isinstance(said, list) and len(said) == len(lines) else []


def served(name: str, text: Sequence[int], *, keep: bool = False) -> list[tuple[str, str, Any]]:
    """Lines by which a text that nobody knows is stored, and given back."""
    new = ("allocate", name, -(-len(text) // 2))
    lines = [("match", name, [text[-1]]), new, ("fill", name, list(text))]
    return lines if keep else [*lines, ("release", name, None)]


def heard(student: Student, word: str, stop: str) -> str | None:
    """The pieces, a line each, of a text that is a word twice, and does not stop."""
    table = np.array([[0.0, 1.0]], np.float32)
    model = student.new(f"{GIVEN}.PagedModel", Tensor.of(table), 1, ROWS)
    script = [[0, [[0, 0, [0], [0], True]], []], [1, [[0, 1, [1], [0], True]], [0]]]
    scheduler = student.new(f"{GIVEN}.ScriptedScheduler", Literal(script))
    engine = student.new("engine.Engine", model, scheduler, ["x", word])
    rows = Literal([[0, [0], 2, 0, [stop], 0.0, 0]])
    told = first(student, lambda: student.call(f"{GIVEN}.heard", engine, model, rows))
    pieces = told.get("pieces") if isinstance(told, dict) else None
    return str(pieces.get("0")) if isinstance(pieces, dict) else None


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


def two_words(student: Student) -> str:
    """The words behind tokens 0 and 1, and behind a token 5 that is computed after them.

    Which of 64 words comes is what the tokens that are seen come to; see the model's ``row_of``.
    """
    model = student.new(f"{GIVEN}.PagedModel", Tensor.of(np.eye(64, dtype=np.float32)), 1, ROWS)
    script = [[0, [[0, 0, [0, 1], [0], True]], []], [1, [[0, 2, [5], [0], True]], [0]]]
    return _text_of(student, model, script, 0.0)


def sampled(student: Student, *works: bool) -> str:
    """The words of batches of one work each, with or without a sample; 64 are equally likely."""
    model = student.new(f"{GIVEN}.PagedModel", Tensor.of(np.zeros((1, 64), np.float32)), 1, ROWS)
    script = [[at, [[0, at, [0], [0], sample]], []] for at, sample in enumerate(works)]
    script[-1][-1] = [0]
    return _text_of(student, model, script, 1.0)


def _text_of(student: Student, model: Handle, script: list[Any], temperature: float) -> str:
    """The text of a request whose batches stand written, of 64 words from @ on."""
    scheduler = student.new(f"{GIVEN}.ScriptedScheduler", Literal(script))
    engine = student.new("engine.Engine", model, scheduler, [chr(64 + n) for n in range(64)])
    rows = Literal([[0, [0], len(script), 0, [], temperature, 3]])
    texts = first(student, lambda: student.call(f"{GIVEN}.texts", engine, rows))
    return str(texts.get("0", "")) if isinstance(texts, dict) else ""


def accepted(
    student: Student, tokens: Sequence[int], q: Any, p: Any, uniforms: Sequence[float]
) -> list[int] | None:
    """The tokens that come out of ``accept``."""
    given = [Tensor.of(np.array(one, np.float64)) for one in (q, p, uniforms)]
    drafted = Tensor.of(np.array(tokens, np.int64))
    return numbers(first(student, lambda: student.call("engine.accept", drafted, *given)))


def stays_below(student: Student, ratios: Mapping[int, float], q: Any, p: Any) -> bool:
    """Whether each token stays for just those uniforms that are below its ratio."""
    for token, ratio in ratios.items():
        for uniform in (0.1, 0.4, 0.6, 0.8, 0.95):
            made = accepted(student, [token], q, p, [uniform, 0.3])
            if made is None or (len(made) == 2 and made[0] == token) != (uniform < ratio):
                return False
    return True


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


def speculated(
    student: Student, text: Sequence[int], *, after_it: bool = False
) -> list[int] | None:
    """Two guesses at temperature 0, where both models say n + 1 after n, and 0 after 7.

    Or the text as it is ``after_it``.
    """
    after = student.new("torch.asarray", Tensor.of(np.roll(np.eye(8, dtype=np.float32), 1, 1)))
    model = student.new("builtins.getattr", after, "__getitem__")
    uniforms = Tensor.of(np.full(5, 0.5))
    given = model, model, Literal(list(text)), 2, 0.0, uniforms
    step = "engine.speculative_step"
    if after_it:
        told = first(student, lambda: student.call(step, *given, echo=True))
        return numbers(told[1][2]) if told is not None else None
    return numbers(first(student, lambda: student.call(step, *given)))


def saved(student: Student, name: str) -> tuple[bool, list[str]]:
    """Whether a new layer in four bits has a tensor of this name, and what its state dict has."""
    layer = student.new("mlp.GroupQuantizedLinear", 8, 3, 4)
    part = first(student, lambda: student.get(layer, name))
    lister = student.new("operator.methodcaller", "state_dict")
    names = first(
        student,
        lambda: student.call("builtins.sorted", student.new("operator.call", lister, layer)),
    )
    return isinstance(part, Tensor), names if isinstance(names, list) else []

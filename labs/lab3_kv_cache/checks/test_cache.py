"""Checks of ``KVCache`` by itself."""

from __future__ import annotations

import numpy as np

from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_error,
    expect_items,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import bounds

KEYS, VALUES = (
    Text("what update returns as keys", "update 返回的键"),
    Text("what update returns as values", "update 返回的值"),
)
NAMES = (("k", KEYS), ("v", VALUES))


def _cache(student: Student, case: Case, dtype: str = "float32") -> Handle:
    return student.new("attention.KVCache", *case["size"], Dtype(dtype))


def _cut(case: Case, first: int, end: int, factor: float = 1.0) -> tuple[Tensor, Tensor]:
    k, v = (case[name].array[:, first:end] * np.float32(factor) for name in ("k", "v"))
    return Tensor.of(k), Tensor.of(v)


def _put(
    student: Student, cache: Handle, case: Case, first: int, end: int, factor: float = 1.0
) -> Result:
    """Store the case's tokens ``first`` to ``end`` at their place; nothing runs yet."""
    return student.call(cache, *_cut(case, first, end, factor), first, method="update")


def _filled(student: Student, cache: Handle, case: Case) -> list[Result]:
    return [_put(student, cache, case, first, end) for first, end in bounds(case["pieces"])]


def _expect_held(result: Result, case: Case, *parts: tuple[int, int, float]) -> None:
    """What update returned: the case's tokens, part by part ``(first, end, factor)``."""
    items = expect_items(result, 2, case)
    for item, (name, what) in zip(items, NAMES, strict=True):
        want = [case[name].array[:, first:end] * factor for first, end, factor in parts]
        expect_close(item, Tensor.of(np.concatenate(want, axis=1)), case, what)


@cases("keys_and_values")
def test_cache_runs(student: Student, case: Case) -> None:
    """It runs: a first piece gives keys and values of that many tokens.

    能运行：放入第一段后，得到同样多 token 的键与值。
    """
    first = case["pieces"][0]
    results = _put(student, _cache(student, case), case, 0, first)
    batch, _, kv_heads, head_dim = case["size"]
    for item, (_, what) in zip(expect_items(results, 2, case), NAMES, strict=True):
        expect_shape(item, (batch, first, kv_heads, head_dim), case, what)


@cases("keys_and_values")
def test_cache_once(student: Student, case: Case) -> None:
    """What is put in at once comes back as it was.

    一次放入的内容原样返回。
    """
    tokens = case["k"].shape[1]
    result = _put(student, _cache(student, case), case, 0, tokens)
    _expect_held(result, case, (0, tokens, 1.0))


@cases("cache_pieces")
def test_cache_pieces(student: Student, case: Case) -> None:
    """After every piece all tokens up to it come back, oldest first, and none beyond.

    每放入一段，返回到该段为止的所有 token，从旧到新，不含更后的位置。
    """
    results = _filled(student, _cache(student, case), case)
    for result, (_, end) in zip(results, bounds(case["pieces"]), strict=True):
        _expect_held(result, case, (0, end, 1.0))


@cases("cache_steps")
def test_cache_steps(student: Student, case: Case) -> None:
    """The same holds token by token.

    逐个 token 放入时同样成立。
    """
    cache, tokens = _cache(student, case), case["k"].shape[1]
    results = [_put(student, cache, case, token, token + 1) for token in range(tokens)]
    for end, result in enumerate(results, start=1):
        _expect_held(result, case, (0, end, 1.0))


@cases("cache_rewinds")
def test_cache_rewinds(student: Student, case: Case) -> None:
    """start_pos may go back: whatever was there and after it is replaced.

    start_pos 可以回退：该位置及之后的内容被替换。
    """
    cache, (first, second, _) = _cache(student, case), case["pieces"]
    _filled(student, cache, case)
    back = _put(student, cache, case, first, first + second, factor=-2.0)
    _expect_held(back, case, (0, first, 1.0), (first, first + second, -2.0))


@cases("keys_and_values")
def test_cache_full(student: Student, case: Case) -> None:
    """Exactly max_len tokens fit; one more raises a ValueError that gives that number.

    恰好放得下 max_len 个 token；再多一个就抛出写明该数值的 ValueError。
    """
    tokens, max_len = case["k"].shape[1], case["size"][1]
    spare = max_len - tokens
    why = Text(
        f"it holds max_len = {max_len} tokens, and these would run past the end.",
        f"它只能容纳 max_len = {max_len} 个 token，这些 token 会超出。",
    )
    # One that still has room, and a full one, where a token too many is cut off in silence.
    for held, extra in ((tokens, spare + 1), (max_len, 1)):
        cache = _cache(student, case)
        _put(student, cache, case, 0, tokens)
        if held == max_len:
            student.call(cache, *_cut(case, 0, spare), tokens, method="update")
        student.flush()  # up to here nothing may raise
        beyond = student.call(cache, *_cut(case, 0, extra), held, method="update")
        expect_error(beyond, "ValueError", str(max_len), case, why)


@cases("keys_and_values")
def test_cache_full_keeps(student: Student, case: Case) -> None:
    """A call that does not fit stores nothing: what the cache held is still there.

    放不下的调用不写入任何内容，缓存原有内容仍在。
    """
    tokens, max_len = case["k"].shape[1], case["size"][1]
    cache = _cache(student, case)
    _put(student, cache, case, 0, tokens)
    too_long = Tensor.of(np.tile(case["k"].array, (1, 2, 1, 1))[:, : max_len - 1])
    student.flush()
    beyond = student.call(cache, too_long, too_long, 2, method="update")
    why = Text("these tokens run past max_len.", "这些 token 超出了 max_len。")
    expect_error(beyond, "Exception", "", case, why)
    gap = student.call(cache, *_cut(case, 0, 1), tokens + 1, method="update")
    why = Text(
        f"{tokens} tokens are held, since the refused ones do not count, so start_pos "
        f"{tokens + 1} leaves a gap.",
        f"被拒绝的不算在内，已存的仍是 {tokens} 个 token，所以 start_pos {tokens + 1} 会留下空缺。",
    )
    expect_error(gap, "Exception", "", case, why)
    again = _put(student, cache, case, tokens - 1, tokens)
    _expect_held(again, case, (0, tokens, 1.0))


@cases("keys_and_values")
def test_cache_gap(student: Student, case: Case) -> None:
    """A start_pos beyond the tokens held raises a ValueError: no gap is ever read.

    start_pos 超出已存 token 数时抛出 ValueError，绝不读取空缺。
    """
    first = case["pieces"][0]
    held = Text(
        f"{first} tokens are held, so start_pos {first + 1} leaves a gap.",
        f"已存 {first} 个 token，start_pos {first + 1} 会留下空缺。",
    )
    back = Text("it went back to start_pos 0: ", "已退回 start_pos 0：")
    empty = student.call(_cache(student, case), *_cut(case, 0, 1), 1, method="update")
    nothing = Text(
        "it is empty, so start_pos 1 leaves a gap.", "缓存为空，start_pos 1 会留下空缺。"
    )
    expect_error(empty, "ValueError", "", case, nothing)
    new, rewound = _cache(student, case), _cache(student, case)
    _filled(student, rewound, case)
    for cache, why in ((new, held), (rewound, Text(back.en + held.en, back.zh + held.zh))):
        _put(student, cache, case, 0, first)
        student.flush()
        for _ in range(2):  # what was refused counts for nothing
            gap = student.call(cache, *_cut(case, 0, 1), first + 1, method="update")
            expect_error(gap, "ValueError", "", case, why)


@cases("keys_and_values")
def test_cache_reset(student: Student, case: Case) -> None:
    """After reset a new sequence begins, and nothing of the first one comes back.

    reset 之后开始新序列，前一序列的内容不再出现。
    """
    cache, (first, *_) = _cache(student, case), case["pieces"]
    _filled(student, cache, case)
    student.call(cache, method="reset")
    again = _put(student, cache, case, 0, first, factor=3.0)
    _expect_held(again, case, (0, first, 3.0))
    step = _put(student, cache, case, first, first + 1, factor=3.0)
    _expect_held(step, case, (0, first + 1, 3.0))


@cases("keys_and_values")
def test_cache_reset_empties(student: Student, case: Case) -> None:
    """After reset the cache is empty: only start_pos 0 is accepted.

    reset 之后缓存为空：只接受 start_pos 0。
    """
    cache = _cache(student, case)
    _filled(student, cache, case)
    student.call(cache, method="reset")
    why = Text(
        "it is empty after reset, so start_pos 1 leaves a gap.",
        "reset 之后缓存为空，start_pos 1 会留下空缺。",
    )
    student.flush()
    gap = student.call(cache, *_cut(case, 1, 2), 1, method="update")
    expect_error(gap, "ValueError", "", case, why)


@cases("cache_two")
def test_cache_two(student: Student, case: Case) -> None:
    """Two caches, one per layer, do not affect each other.

    两个缓存（如两层各一个）互不干扰。
    """
    one, other = _cache(student, case), _cache(student, case)
    first, second, _ = case["pieces"]
    _put(student, one, case, 0, first)
    _put(student, other, case, 0, first, factor=-1.0)
    result = _put(student, one, case, first, first + second)
    _expect_held(result, case, (0, first + second, 1.0))


@cases("keys_and_values")
def test_cache_dtype(student: Student, case: Case) -> None:
    """Keys and values are kept and returned in the dtype that was asked for.

    键与值按指定的数据类型存储并返回。
    """
    cache = _cache(student, case, "float16")
    result = _put(student, cache, case, 0, case["pieces"][0])
    for item, (_, what) in zip(expect_items(result, 2, case), NAMES, strict=True):
        expect_dtype(item, "float16", case, what)


@cases("keys_and_values")
def test_cache_pure(student: Student, case: Case) -> None:
    """It does not change the k and v that it is given.

    不修改传入的 k 与 v。
    """
    cache, end = _cache(student, case), case["pieces"][0]
    k, v = _cut(case, 0, end)
    result = student.call(cache, k, v, 0, method="update", echo=True)
    _, args, _ = expect_items(result, 3, case)
    expect_unchanged(args[0], k, case, Text("k", "k"))
    expect_unchanged(args[1], v, case, Text("v", "v"))

"""Cases of block tables: what a table has to hold lies in no other check's arguments."""

from __future__ import annotations

from typing import Any

import torch

from autograder.reference.recipes import Draft, Draw, draft, recipe

from .pool import SIZES, Sizes, about_pool


def _drafted(
    draw: Draw, size: Sizes, tokens: int, en: str, zh: str, pieces: list[int], **values: Any
) -> Draft:
    shape = tokens, *size[2:]
    dtype = getattr(torch, values.get("dtype", "float32"))
    tensors = {name: draw.normal(*shape, scale=3.0).to(dtype) for name in "kv"}
    return draft(about_pool(size, en, zh), tensors, size=list(size), pieces=pieces, **values)


def _in_pieces(draw: Draw, **values: Any) -> Draft:
    """Pieces that end within a block, at its end, and behind a border that they cross."""
    size = draw.pick(SIZES)
    block = size[1]
    pieces = [0, block - 1, 1, block + 2, 0, 2 * block - 2]
    # none | block - 1 | block (full) | 2 block + 2 | the same | 4 blocks, full
    en = f"{' + '.join(map(str, pieces))} tokens, "
    zh = f"依次 {' + '.join(map(str, pieces))} 个 token，"
    return _drafted(draw, size, sum(pieces), en, zh, pieces, **values)


@recipe()
def table_first(draw: Draw) -> Draft:
    size = draw.pick(SIZES)
    return _drafted(draw, size, size[1] - 1, "less than a block, ", "不足一块，", [size[1] - 1])


@recipe()
def table_pieces(draw: Draw) -> Draft:
    return _in_pieces(draw)


@recipe()
def table_steps(draw: Draw) -> Draft:
    size = draw.pick(SIZES)
    tokens = 2 * size[1] + 1
    en, zh = f"{tokens} tokens, one at a time, ", f"{tokens} 个 token，逐个放入，"
    return _drafted(draw, size, tokens, en, zh, [1] * tokens)


@recipe()
def table_two(draw: Draw) -> Draft:
    """Two tables take turns, piece by piece."""
    size = draw.pick(SIZES)
    block = size[1]
    pieces = [block + 1, block - 1, 1, block, block - 2]
    en, zh = "two tables in turn, ", "两个表交替写入，"
    return _drafted(draw, size, sum(pieces), en, zh, pieces)


@recipe()
def table_full(draw: Draw) -> Draft:
    """One block of the pool is left, then too many tokens come, then as many as fit."""
    size = draw.pick(SIZES)
    blocks, block = size[:2]
    pieces = [(blocks - 2) * block + 1, 2 * block, 2 * block - 1]
    en, zh = "tokens for more blocks than are left, ", "token 需要的块多于剩余的块，"
    return _drafted(draw, size, sum(pieces), en, zh, pieces)


@recipe()
def table_bfloat16(draw: Draw) -> Draft:
    return _in_pieces(draw, dtype="bfloat16")


def _forked(draw: Draw, begun: int, en: str, zh: str, **values: Any) -> Draft:
    """A beginning of some blocks and a part of one (0: a full last block); two ways on."""
    size = draw.pick(SIZES)
    block = size[1]
    pieces = [2 * block + begun, 2, block]
    return _drafted(draw, size, sum(pieces), en, zh, pieces, **values)


@recipe()
def fork_shared(draw: Draw) -> Draft:
    return _forked(draw, 1, "a table and its fork, ", "一个表与它的分叉，")


@recipe()
def fork_child(draw: Draw) -> Draft:
    return _forked(draw, 1, "the fork writes first, ", "分叉先写入，")


@recipe()
def fork_parent(draw: Draw) -> Draft:
    return _forked(draw, 1, "the parent writes first, ", "原表先写入，")


@recipe()
def fork_full(draw: Draw) -> Draft:
    return _forked(draw, 0, "forked at a full block, ", "在一块写满时分叉，")


@recipe()
def fork_freed(draw: Draw) -> Draft:
    return _forked(draw, 1, "one of two is freed, ", "两者之一被释放，")


@recipe()
def fork_no_room(draw: Draw) -> Draft:
    """One block is left: enough for a copy, and not for what comes behind it."""
    size = draw.pick(SIZES)
    blocks, block = size[:2]
    pieces = [(blocks - 2) * block + 1, block]
    en, zh = "room for a copy and no more, ", "只够复制一个块，"
    return _drafted(draw, size, sum(pieces), en, zh, pieces)


def _available(blocks: int, block: int, trace: list[list[int]]) -> list[int]:
    """How many blocks are available after every entry of a trace: kind, table, tokens.

    Kinds: 0 appends, 1 forks (into the next new table), 2 frees.
    """
    owners: dict[int, int] = {}
    tables: list[tuple[list[int], int]] = [([], 0)]
    found, fresh = [], iter(range(10_000))
    for kind, table, tokens in trace:
        own, length = tables[table]
        if kind == 1:
            tables.append((list(own), length))
            for b in own:
                owners[b] += 1
        elif kind == 2:
            for b in own:
                owners[b] -= 1
            tables[table] = ([], 0)
        elif tokens:
            if length % block and owners[own[-1]] > 1:
                owners[own[-1]] -= 1
                own[-1] = next(fresh)
                owners[own[-1]] = 1
            while len(own) * block < length + tokens:
                own.append(next(fresh))
                owners[own[-1]] = 1
            tables[table] = (own, length + tokens)
        found.append(blocks - sum(count > 0 for count in owners.values()))
    if min(found) < 0 or found[-1] != blocks:
        raise ValueError("a trace has to fit, and to give everything back")
    return found


@recipe(hidden=2)
def table_trace(draw: Draw) -> Draft:
    """Beams, as a search has them: forks that go on, forks of forks, some given up."""
    block = draw.pick((4, 5, 3, 6))
    size = (23, block, 2, 7)
    some = [draw.integer(1, 2 * block) for _ in range(8)]
    trace = [
        [0, 0, block + 2], [1, 0, 0], [0, 1, some[0]], [1, 1, 0], [0, 0, some[1]],
        [0, 2, some[2]], [2, 1, 0], [1, 2, 0], [1, 2, 0], [0, 4, 1], [0, 3, some[3]],
        [0, 2, 1], [2, 0, 0], [0, 0, some[4]], [0, 3, some[5]], [2, 2, 0], [0, 4, some[6]],
        [2, 3, 0], [0, 4, some[7]], [2, 4, 0], [2, 0, 0],
    ]  # fmt: skip
    tokens = sum(count for kind, _, count in trace if kind == 0)
    left = _available(size[0], block, trace)
    en, zh = "five tables that fork and end, ", "五个分叉、结束的表，"
    return _drafted(draw, size, tokens, en, zh, [], trace=trace, left=left)

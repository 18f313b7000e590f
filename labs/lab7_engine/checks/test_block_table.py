"""Checks of ``BlockTable``, on the student's own pool."""

from __future__ import annotations

from itertools import accumulate

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, expect_error, expect_value, reject
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Other, Student
from labs.lab7_engine.checks.paged import (
    AVAILABLE,
    append,
    blocks_of,
    fork_of,
    look,
    numbers_of,
    pool_for_tables,
    table_of,
)

PARENT, CHILD = Text("the table", "原表"), Text("its fork", "分叉")
OWNERS = Text("the owners of a block", "块的所有者数")


def _begun(student: Student, case: Case) -> tuple[Handle, Handle]:
    """A pool, and a table with the case's first piece."""
    pool = pool_for_tables(student, case)
    table = table_of(student, pool)
    append(student, table, case, 0, case["pieces"][0])
    return pool, table


@checks("""
    test_table_runs: table_first
        It runs: tokens come into a first block.
        能运行：token 存入第一个块。

    test_table_pieces: table_pieces table_bfloat16
        Pieces fill the last block first, then as many new blocks as they need, in any dtype.
        每段先填满最后一个块，再按需取用新块；任何数据类型都如此。

    test_table_steps: table_steps
        Token by token, a block is taken only when a token needs it.
        逐个 token 放入时，只在需要时才取用新块。
    """)
def _expect_pieces(student: Student, case: Case) -> None:
    pool = pool_for_tables(student, case)
    table = table_of(student, pool)
    blocks, size = case["size"][:2]
    seen = []
    for end, piece in zip(accumulate(case["pieces"]), case["pieces"], strict=True):
        append(student, table, case, end - piece, end)
        seen.append((end, look(student, pool, table)))
    for end, moment in seen:
        moment.expect(case, [(0, end)])
        moment.left(blocks - -(-end // size), case)


@cases("table_two")
def test_table_two(student: Student, case: Case) -> None:
    """Two tables of one pool do not affect each other.

    同一个池中的两个表互不干扰。
    """
    pool = pool_for_tables(student, case)
    tables = table_of(student, pool), table_of(student, pool)
    parts: tuple[list[tuple[int, int]], ...] = ([], [])
    for turn, end in enumerate(accumulate(case["pieces"])):
        first = end - case["pieces"][turn]
        append(student, tables[turn % 2], case, first, end)
        parts[turn % 2].append((first, end))
    seen = [look(student, pool, table) for table in tables]
    for moment, part, about in zip(
        seen, parts, (Text("table 0", "表 0 "), Text("table 1", "表 1 ")), strict=True
    ):
        moment.expect(case, part, about)


@cases("table_full")
def test_table_full(student: Student, case: Case) -> None:
    """With too few blocks, OutOfBlocks is raised and everything stays as it was.

    块不够时抛出 OutOfBlocks，一切保持原样。
    """
    pool, table = _begun(student, case)
    first, beyond, fits = case["pieces"]
    student.flush()
    why = Text(
        f"{beyond} more tokens need more blocks than the pool has.",
        f"再放 {beyond} 个 token 需要的块超过池中剩余。",
    )
    refused = append(student, table, case, first, first + beyond)
    expect_error(refused, "OutOfBlocks", "", case, why)
    kept = look(student, pool, table)
    append(student, table, case, first + beyond, first + beyond + fits)
    append(student, table, case, 0, 0)  # nothing needs no room
    seen = look(student, pool, table)
    kept.expect(case, [(0, first)])
    kept.left(1, case)
    seen.expect(case, [(0, first), (first + beyond, first + beyond + fits)])
    seen.left(0, case)


@cases("fork_no_room")
def test_fork_no_room(student: Student, case: Case) -> None:
    """A copy that fits is not made if the tokens after it do not fit.

    复制放得下、后面的 token 放不下时，也不复制：两条序列保持原样。
    """
    pool, table = _begun(student, case)
    fork = fork_of(student, table)
    first, more = case["pieces"]
    student.flush()
    why = Text(
        "the last block is shared: a copy and a new block are needed, and one is left.",
        "最后一个块是共享的：需要一个复制块和一个新块，而只剩一个。",
    )
    refused = append(student, fork, case, first, first + more)
    expect_error(refused, "OutOfBlocks", "", case, why)
    seen = look(student, pool, table), look(student, pool, fork)
    for moment, about in zip(seen, (PARENT, CHILD), strict=True):
        moment.expect(case, [(0, first)], about)
        moment.left(1, case)
    owners = [
        student.call(pool, block, method="references")
        for block in seen[0].numbers(first, case, PARENT)
    ]
    for count in owners:
        expect_value(count, 2, case, OWNERS)


@cases("fork_shared")
def test_fork_shares(student: Student, case: Case) -> None:
    """A fork holds the same tokens in the same blocks, which have two owners then.

    分叉以相同的块保存相同的 token，这些块此时有两个所有者。
    """
    pool, table = _begun(student, case)
    before, fork = student.get(table, "blocks"), fork_of(student, table)
    seen, first = (look(student, pool, table), look(student, pool, fork)), case["pieces"][0]
    for moment, about in zip(seen, (PARENT, CHILD), strict=True):
        moment.expect(case, [(0, first)], about)
        moment.left(case["size"][0] - -(-first // case["size"][1]), case)
    held = numbers_of(before, -(-first // case["size"][1]), case, blocks_of(PARENT))
    mine, other = (
        moment.numbers(first, case, about)
        for moment, about in zip(seen, (PARENT, CHILD), strict=True)
    )
    if mine != held:
        want = Text(f"{held}, as before the fork", f"与分叉之前相同：{held}")
        raise reject(Other(str(mine)), want, case, blocks_of(PARENT))
    if other != held:
        want = Text(f"those of the table, {held}", f"与原表相同：{held}")
        raise reject(Other(str(other)), want, case, blocks_of(CHILD))
    owners = [student.call(pool, block, method="references") for block in mine]
    for count in owners:
        expect_value(count, 2, case, OWNERS)


@checks("""
    test_fork_apart: fork_child fork_parent fork_full
        What the fork appends is not seen by the table, and the other way round.
        分叉写入的内容不影响原表，反之亦然。
    """)
def _expect_apart(student: Student, case: Case) -> None:
    pool, table = _begun(student, case)
    fork = fork_of(student, table)
    first, two, more = case["pieces"]
    second = first + two
    writers = [(table, PARENT), (fork, CHILD)]
    if not _parent_first(case):
        writers.reverse()
    append(student, writers[0][0], case, first, second)
    append(student, writers[1][0], case, second, second + more)
    seen = [look(student, pool, writer) for writer, _ in writers]
    ways = [(first, second), (second, second + more)]
    for moment, way, (_, about) in zip(seen, ways, writers, strict=True):
        moment.expect(case, [(0, first), way], about)


def _parent_first(case: Case) -> bool:
    return "parent" in case.words["en"]


@cases("fork_child", "fork_full")
def test_fork_copies(student: Student, case: Case) -> None:
    """One block is copied, where the last one is shared and not full; otherwise none.

    仅当最后一个块被共享且未满时复制一个块，否则不复制。
    """
    pool, table = _begun(student, case)
    fork = fork_of(student, table)
    blocks, size = case["size"][:2]
    first = case["pieces"][0]
    append(student, fork, case, first, first)  # nothing to write
    before = student.get(pool, "available")
    append(student, fork, case, first, first + 1)
    after, kept = student.get(pool, "available"), student.get(table, "blocks")
    append(student, table, case, first + 1, first + 2)  # alone with its block by now
    last, written = student.get(pool, "available"), student.get(table, "blocks")
    shared = -(-first // size)
    none = Text(
        "available after the fork appended 0 tokens", "分叉追加 0 个 token 之后的 available"
    )
    one = Text("available after the fork appended 1 token", "分叉追加 1 个 token 之后的 available")
    expect_value(before, blocks - shared, case, none)
    expect_value(after, blocks - shared - 1, case, one)
    alone = first % size > 0
    both = Text(
        "available after the table"
        + ", whose last block the fork should have given back by now," * alone
        + " appended 1 token, too,",
        "之后原表也追加 1 个 token"
        + "（分叉应已归还自己对这个块的那一份）" * alone
        + "，此后的 available",
    )
    expect_value(last, blocks - shared - (1 if alone else 2), case, both)
    own = numbers_of(kept, shared, case, blocks_of(PARENT))
    now = numbers_of(written, shared + (not alone), case, blocks_of(PARENT))
    if now[:shared] != own:
        want = Text(f"{own}, as before: nobody else owns them", f"仍是 {own}：没有别的所有者")
        what = Text("the blocks of the table that writes alone", "独自写入的表的块")
        raise reject(Other(str(now[:shared])), want, case, what)


@cases("fork_freed")
def test_table_frees(student: Student, case: Case) -> None:
    """free gives all blocks back, except those that a fork still owns; the table starts over.

    free 归还所有块，分叉仍拥有的除外；之后该表可从头使用。
    """
    pool, table = _begun(student, case)
    fork = fork_of(student, table)
    blocks, size = case["size"][:2]
    first, two, _ = case["pieces"]
    append(student, table, case, first, first + two)
    student.call(table, method="free")
    freed, kept = look(student, pool, table), look(student, pool, fork)
    append(student, table, case, 0, two)
    again = look(student, pool, table)
    for each in (table, fork):
        student.call(each, method="free")
    last = student.get(pool, "available")
    freed.expect(case, [(0, 0)], PARENT)
    kept.expect(case, [(0, first)], CHILD)
    kept.left(blocks - -(-first // size), case)
    again.expect(case, [(0, two)], PARENT)
    expect_value(last, blocks, case, AVAILABLE)


@cases("table_trace")
def test_table_trace(student: Student, case: Case) -> None:
    """Forks of forks go on and end: contents stay, no block is lost or copied needlessly.

    多次分叉、继续与结束：内容不变，不丢块，也不做多余的复制。
    """
    pool = pool_for_tables(student, case)
    tables = [table_of(student, pool)]
    parts: list[list[tuple[int, int]]] = [[]]
    seen, at = [], 0
    for kind, number, tokens in case["trace"]:
        table = tables[number]
        if kind == 1:
            tables.append(fork_of(student, table))
            parts.append([*parts[number]])
        elif kind == 2:
            student.call(table, method="free")
            parts[number] = []
        else:
            append(student, table, case, at, at + tokens)
            parts[number] = [*parts[number], (at, at + tokens)]
            at += tokens
        target = len(tables) - 1 if kind == 1 else number
        seen.append((look(student, pool, tables[target]), parts[target] or [(0, 0)], target))
    for (moment, part, number), left in zip(seen, case["left"], strict=True):
        moment.expect(case, part, Text(f"table {number}", f"表 {number} "))
        moment.left(left, case)

"""Checks of ``BlockPool``: which block comes first is nobody's business."""

from __future__ import annotations

from autograder.checks.expect import (
    cases,
    expect_dtype,
    expect_error,
    expect_shape,
    expect_value,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Handle, Other, Student
from labs.lab7_engine.checks.paged import AVAILABLE, BLOCKS, numbers_of, pool_of

OWNERS = Text("the owners of a block", "块的所有者数")
NOBODY = Text("nobody owns this block.", "这个块没有所有者。")


def _taken(student: Student, case: Case, pool: Handle, count: int) -> list[int]:
    return numbers_of(student.call(pool, count, method="allocate"), count, case)


def _apart(one: list[int], other: list[int], case: Case) -> None:
    """Blocks that have an owner are not given away again."""
    if twice := sorted({*one} & {*other}):
        want = Text("only blocks without an owner", "只给出没有所有者的块")
        raise reject(Other(f"block {twice[0]}, which has one"), want, case, BLOCKS)


@cases("pool")
def test_pool_runs(student: Student, case: Case) -> None:
    """Keys and values are zeros of their shape and dtype, and all blocks are available.

    键与值全为零，形状与数据类型正确，所有块都可用。
    """
    plain = student.new("attention.BlockPool", *case["size"])
    half = student.new("attention.BlockPool", *case["size"], Dtype("float16"))
    for pool, dtype in ((plain, "float32"), (half, "float16")):
        seen = [student.get(pool, name) for name in ("keys", "values", "available")]
        for result, name in zip(seen[:2], ("keys", "values"), strict=True):
            what = Text(name, name)
            tensor = expect_dtype(result, dtype, case, what)
            if expect_shape(tensor, case["size"], case, what).array.any():
                raise reject(tensor, Text("zeros", "全为零"), case, what)
        expect_value(seen[2], case["size"][0], case, AVAILABLE)


@cases("pool")
def test_pool_allocates(student: Student, case: Case) -> None:
    """allocate gives away different blocks, each with one owner; fewer are available then.

    allocate 给出互不相同的块，各有一个所有者；可用的块相应减少。
    """
    pool, first, blocks = pool_of(student, case), case["first"], case["size"][0]
    some = student.call(pool, first, method="allocate")
    none = student.call(pool, 0, method="allocate")
    one = student.call(pool, method="allocate")
    left = student.get(pool, "available")
    numbers_of(none, 0, case)
    owned, more = numbers_of(some, first, case), numbers_of(one, 1, case)
    _apart(owned, more, case)
    expect_value(left, blocks - first - 1, case, AVAILABLE)
    owners = [student.call(pool, block, method="references") for block in owned + more]
    for count in owners:
        expect_value(count, 1, case, OWNERS)
    rest = _taken(student, case, pool, blocks - first - 1)
    _apart(owned + more, rest, case)


@cases("pool")
def test_pool_full(student: Student, case: Case) -> None:
    """Too many at once: OutOfBlocks says how many were asked for, and none is taken.

    一次要得太多：OutOfBlocks 写明所要的块数，且一个也不取走。
    """
    pool, first, blocks = pool_of(student, case), case["first"], case["size"][0]
    held = _taken(student, case, pool, first)
    beyond = blocks - first + 1
    why = Text(
        f"{blocks - first} of {blocks} blocks are left.",
        f"{blocks} 个块中只剩 {blocks - first} 个。",
    )
    refused = student.call(pool, beyond, method="allocate")
    expect_error(refused, "OutOfBlocks", str(beyond), case, why)
    expect_value(student.get(pool, "available"), blocks - first, case, AVAILABLE)
    rest = _taken(student, case, pool, blocks - first)
    _apart(held, rest, case)
    none = Text("no block is left.", "没有剩余的块。")
    expect_error(student.call(pool, method="allocate"), "OutOfBlocks", "1", case, none)
    _taken(student, case, pool, 0)


@cases("pool")
def test_pool_frees(student: Student, case: Case) -> None:
    """A block that was freed is available again, and only that one.

    被释放的块重新可用，其他块不受影响。
    """
    pool, blocks = pool_of(student, case), case["size"][0]
    held = _taken(student, case, pool, blocks)
    student.call(pool, held[1], method="free")
    left = student.get(pool, "available")
    again = student.call(pool, method="allocate")
    empty = student.get(pool, "available")
    expect_value(left, 1, case, AVAILABLE)
    expect_value(empty, 0, case, AVAILABLE)
    if (got := numbers_of(again, 1, case)) != held[1:2]:
        want = Text(f"[{held[1]}], which alone is free", f"[{held[1]}]，只有它可用")
        raise reject(Other(str(got)), want, case, BLOCKS)


@cases("pool")
def test_pool_shares(student: Student, case: Case) -> None:
    """A shared block is available only when its last owner has given it back.

    共享的块在最后一个所有者归还之后才可用。
    """
    pool, blocks = pool_of(student, case), case["size"][0]
    held = _taken(student, case, pool, 2)
    for _ in range(2):
        student.call(pool, held[0], method="share")
    found = []
    for _ in range(3):
        owners = student.call(pool, held[0], method="references")
        found.append((owners, student.get(pool, "available")))
        student.call(pool, held[0], method="free")
    last = student.call(pool, held[0], method="references"), student.get(pool, "available")
    other = student.call(pool, held[1], method="references")
    for count, (owners, left) in zip((3, 2, 1), found, strict=True):
        expect_value(owners, count, case, OWNERS)
        expect_value(left, blocks - 2, case, AVAILABLE)
    expect_value(last[0], 0, case, OWNERS)
    expect_value(last[1], blocks - 1, case, AVAILABLE)
    expect_value(other, 1, case, OWNERS)
    again = _taken(student, case, pool, blocks - 1)
    _apart(held[1:], again, case)
    owners = student.call(pool, held[0], method="references")
    expect_value(owners, 1, case, OWNERS)


@cases("pool")
def test_pool_refuses(student: Student, case: Case) -> None:
    """Freeing or sharing a block that nobody owns is a ValueError, and changes nothing.

    释放或共享没有所有者的块会抛出 ValueError，且不改变任何状态。
    """
    pool, blocks = pool_of(student, case), case["size"][0]
    (held,) = _taken(student, case, pool, 1)
    student.call(pool, held, method="free")
    student.flush()
    never = (held + 1) % blocks
    for block in (held, never):
        for method in ("free", "share"):
            expect_error(student.call(pool, block, method=method), "ValueError", "", case, NOBODY)
    owners = [student.call(pool, block, method="references") for block in (held, never)]
    for count in owners:
        expect_value(count, 0, case, OWNERS)
    expect_value(student.get(pool, "available"), blocks, case, AVAILABLE)
    every = _taken(student, case, pool, blocks)
    for block in (-1, blocks):
        for method in ("free", "share"):
            why = Text(
                f"{method}({block}) names a block that nobody owns.",
                f"{method}({block}) 所指的块没有所有者。",
            )
            expect_error(student.call(pool, block, method=method), "ValueError", "", case, why)
    for count in [student.call(pool, block, method="references") for block in every]:
        expect_value(count, 1, case, OWNERS)
    expect_value(student.get(pool, "available"), 0, case, AVAILABLE)

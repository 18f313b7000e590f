"""How the checks of lab 7's pool and tables call what students write, and what they read there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import expect_close, expect_shape, expect_value, reject
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError
from autograder.sandbox.student import Dtype, Handle, Named, Other, Result, Student
from autograder.wire.messages import Tensor

AVAILABLE = Text("available", "available")
BLOCKS = Text("the block numbers", "块编号")
LENGTH = Text("length", "length")


def blocks_of(whose: Text) -> Text:
    """The blocks that a table, or a fork, lists."""
    return Text(f"the blocks of {whose.en}", f"{whose.zh}的块")


def pool_of(student: Student, case: Case) -> Handle:
    """The student's pool of the case's sizes."""
    dtype = Dtype(case.values.get("dtype", "float32"))
    return student.new("attention.BlockPool", *case["size"], dtype)


def pool_for_tables(student: Student, case: Case) -> Handle:
    """A pool for a check of tables, which first asks whether these are begun at all.

    So a table without a line is said to be that, even where there is no pool yet, either.
    """
    bare = student.new("copyreg.__newobj__", Named("attention.BlockPool"))  # of no use but this
    student.new("attention.BlockTable", bare)
    try:
        student.flush()
    except StudentError as error:
        if error.todo:
            raise
    return pool_of(student, case)


def table_of(student: Student, pool: Handle) -> Handle:
    """An empty table of the student's."""
    return student.new("attention.BlockTable", pool)


def fork_of(student: Student, table: Handle) -> Handle:
    """What ``fork`` gives, as an object that can be called."""
    caller = student.new("operator.methodcaller", "fork")
    return student.new("builtins.next", student.new("builtins.map", caller, [table]))


def like(tensor: Tensor, array: NDArray[Any]) -> Tensor:
    """A part of a tensor, in its dtype; numpy has no bfloat16, so lower bytes are cut off."""
    if tensor.dtype != "bfloat16":
        return Tensor.of(array)
    raw = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    halves = (raw >> 16).astype(np.uint16)
    return Tensor("bfloat16", array.shape, halves.tobytes())


def append(student: Student, table: Handle, case: Case, first: int, end: int) -> Result:
    """Store the case's tokens ``first`` to ``end``; nothing runs yet."""
    k, v = (like(case[name], case[name].array[first:end]) for name in "kv")
    return student.call(table, k, v, method="append")


def numbers_of(result: Result, count: int, case: Case, what: Text = BLOCKS) -> list[int]:
    """Block numbers that a call or an attribute gave: so many, all different, of the pool."""
    value = result.value
    if not isinstance(value, (list, tuple)):
        listed = Text(f"a list of {count} block numbers", f"含 {count} 个块编号的 list")
        raise reject(value, listed, case, what)
    expect_value(len(value), count, case, Text(f"the count of {what.en}", f"{what.zh}的个数"))
    most = case["size"][0] if "size" in case.values else case["blocks"]
    if not all(type(number) is int and 0 <= number < most for number in value):
        within = Text(f"whole numbers from 0 to {most - 1}", f"0 到 {most - 1} 的整数")
        raise reject(Other(str(list(value))), within, case, what)
    if len({*value}) < count:
        different = Text("blocks that all differ", "互不相同的块")
        raise reject(Other(str(list(value))), different, case, what)
    return [int(number) for number in value]


@dataclass
class Seen:
    """What a pool and a table held at one moment; nothing is looked at before ``expect``."""

    keys: Result
    values: Result
    available: Result
    blocks: Result
    length: Result

    def numbers(self, tokens: int, case: Case, about: Text | None = None) -> list[int]:
        """The table's blocks, as many as so many tokens need."""
        what = blocks_of(about) if about else BLOCKS
        return numbers_of(self.blocks, -(-tokens // case["size"][1]), case, what)

    def expect(self, case: Case, parts: list[tuple[int, int]], about: Text | None = None) -> None:
        """The case's tokens, ``(first, end)`` one part after the other, and no more."""
        shape, size = case["size"], case["size"][1]
        tokens = sum(end - first for first, end in parts)
        name = about or Text("a table", "表中")
        whose = Text(f"length of {about.en}", f"{about.zh}的 length") if about else LENGTH
        expect_value(self.length, tokens, case, whose)
        blocks = np.array(self.numbers(tokens, case, about), dtype=int)
        places = np.arange(tokens)
        for kind, result in (("k", self.keys), ("v", self.values)):
            what = Text(f"the {'keys' if kind == 'k' else 'values'} of {name.en}",
                        f"{name.zh}的{'键' if kind == 'k' else '值'}")  # fmt: skip
            whole = expect_shape(result, shape, case, what).array
            got = whole[blocks[places // size], places % size] if tokens else whole[:0, 0]
            want = np.concatenate([case[kind].array[first:end] for first, end in parts])
            expect_close(Tensor.of(got), Tensor.of(want), case, what)

    def left(self, count: int, case: Case) -> None:
        """So many blocks of the pool are available."""
        expect_value(self.available, count, case, AVAILABLE)


def look(student: Student, pool: Handle, table: Handle) -> Seen:
    """Ask for all of it, as it is now."""
    keys, values, available = (student.get(pool, n) for n in ("keys", "values", "available"))
    blocks, length = (student.get(table, name) for name in ("blocks", "length"))
    return Seen(keys, values, available, blocks, length)

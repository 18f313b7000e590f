"""Checks of ``PrefixCache`` by itself: scripts of calls, and what each should give."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, expect_error, expect_form, expect_value
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Literal, Student
from labs.lab7_engine.checks.serving import GIVEN, own_cache, refuse


def _played(student: Student, case: Case, cache: Handle) -> list[list[int]]:
    lines = case["lines"]
    result = student.call(f"{GIVEN}.play", cache, Literal([list(line) for line in lines]))
    want, what = Text("an answer for each call", "每次调用都有结果"), _call(lines, 0)
    said = expect_form(result, list[list[int]], want, case, what)
    if len(said) != len(lines):
        refuse(said, want, case, what)
    return said


def _call(lines: list[list[Any]], place: int) -> Text:
    """A call by its number; where ``available`` is asked for, with what was done before it."""
    call = _named(lines[place])
    if lines[place][0] == "available" and place:
        before = _named(lines[place - 1])
        call = Text(f"{call.en} after {before.en}", f"{before.zh}，之后的 {call.zh}")
    return Text(
        f"the result of call {place + 1} ({call.en})", f"第 {place + 1} 次调用（{call.zh}）的结果"
    )


def _named(line: list[Any]) -> Text:
    word, name, what = line
    if isinstance(what, list):
        return Text(f"{word} of {len(what)} tokens", f"{word}，{len(what)} 个 token")
    if word == "release":
        return Text(f"release of the blocks of text {name}", f"release，文本 {name} 的块")
    return Text(word, word) if what is None else Text(f"{word}({what})", f"{word}({what})")


def _blocks(count: int) -> Text:
    return Text(f"{count} block" + "s" * (count != 1), f"{count} 个块")


def _expect_answers(case: Case, said: list[list[int]]) -> None:
    """Numbers as the reference has them; blocks are owned by nobody else, and hold the text."""
    blocks, size = case["sizes"]
    owners: Counter[int] = Counter()
    holds: dict[int, list[int]] = {}
    lists: dict[str, list[int]] = {}
    new: dict[str, list[int]] = {}
    steps = enumerate(zip(case["lines"], case["want"], said, strict=True))
    for place, ((word, name, what), want, answer) in steps:
        call = _call(case["lines"], place)
        if word == "available":
            expect_value(answer[0] if answer else None, want, case, call)
        elif word == "match":
            if len(answer) != want:
                refuse(_blocks(len(answer)), _blocks(want), case, call)
            for number, block in enumerate(answer):
                if holds.get(block) != what[: (number + 1) * size]:
                    held = Text("blocks that hold the text", "存有该文本的块")
                    refuse(answer, held, case, call)
            owners.update(answer)
            lists[name], new[name] = list(answer), []
        elif word == "allocate" and want < 0:
            if answer != [-1]:
                refuse(answer, Text("OutOfBlocks", "OutOfBlocks"), case, call)
        elif word == "allocate":
            if answer == [-1]:
                refuse("OutOfBlocks", _blocks(want), case, call)
            free = {block for block in range(blocks) if not owners[block]}
            if len({*answer}) != want or len(answer) != want or not {*answer} <= free:
                nobody = Text(
                    f"{want} of the blocks that nobody owns, {sorted(free)}",
                    f"无主的块 {sorted(free)} 中的 {want} 个",
                )
                refuse(answer, nobody, case, call)
            for block in answer:
                holds.pop(block, None)
            owners.update(answer)
            known = lists.setdefault(name, [])
            new.setdefault(name, []).extend(range(len(known), len(known) + want))
            known += answer
        elif word == "fill":
            for at in new[name]:
                if (end := (at + 1) * size) <= len(what):
                    holds[lists[name][at]] = what[:end]
        else:
            owners.subtract(lists.pop(name))


@checks("""
    test_cache_counts: cache_counts
        available counts blocks that nobody owns; too many at once raise and change nothing.
        available 统计所有无主的块；一次要得太多会抛出异常，且不改变任何内容。

    test_cache_finds: cache_finds
        Full blocks of the same beginning are found, and nothing that differs.
        找到开头相同的满块，不同的内容不会被找到。

    test_cache_last: cache_last cache_single
        At least one token is left to compute.
        至少留下一个 token 需要计算。

    test_cache_before: cache_before cache_hashes
        A block is found only where it and all tokens before it are the same, not just their hash.
        只有块与之前的所有 token 都相同（而不仅是 hash 相同），才能找到它。

    test_cache_shares: cache_shares
        A block is free only when its last owner has given it back.
        只有最后一个所有者归还之后，块才无主。

    test_cache_oldest: cache_oldest cache_unknown
        Unknown blocks are taken first, then those that nobody owned for the longest time.
        先取内容未知的块，再取无主时间最长的块。

    test_cache_ends_first: cache_ends_first
        The end of a text is forgotten before its beginning.
        同一文本先忘掉结尾，后忘掉开头。

    test_cache_forgets: cache_forgets
        A block that is written again no longer holds its old text.
        重新写入的块不再代表旧的文本。

    test_cache_twice: cache_twice cache_copies
        A text that two requests computed keeps the block made known first; the other stays unknown.
        两个请求都算过的文本仍用先登记的块查找；另一个块保持未知。
    """)
def _expect_play(student: Student, case: Case) -> None:
    _expect_answers(case, _played(student, case, own_cache(student, case)))


@cases("cache_runs")
def test_cache_runs(student: Student, case: Case) -> None:
    """It runs: a new cache finds nothing, and gives different blocks.

    能运行：新的缓存什么也找不到，分配的块各不相同。
    """
    _expect_answers(case, _played(student, case, own_cache(student, case)))


@cases("cache_refuses")
def test_cache_refuses(student: Student, case: Case) -> None:
    """A block that nobody owns cannot be given back: ValueError, and nothing changes.

    无主的块不能归还：抛出 ValueError，且不改变任何内容。
    """
    cache, (blocks, _) = own_cache(student, case), case["sizes"]
    held, said = student.get(cache, "num_blocks"), _played(student, case, cache)
    expect_value(held, blocks, case, Text("num_blocks", "num_blocks"))
    _expect_answers(case, said)
    owned = said[1]
    free = next(block for block in range(blocks) if block not in owned)
    student.flush()
    rest = blocks - len(owned)
    for block in (free, -1, blocks):
        if block == -1:  # the last block has an owner by now
            student.call(cache, rest, method="allocate")
            rest = 0
        why = Text(f"nobody owns block {block}.", f"块 {block} 无主。")
        for given in ([owned[0], block], [block, owned[0]]):
            result = student.call(cache, given, method="release")
            expect_error(result, "ValueError", "", case, why)
            left = student.get(cache, "available")
            expect_value(left, rest, case, Text("available after that", "此后的 available"))

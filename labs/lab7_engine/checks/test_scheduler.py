"""Checks of ``Scheduler``: it is driven to the end, and its batches are replayed."""

from __future__ import annotations

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, expect_error, expect_value
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Literal, Student
from labs.lab7_engine.checks.serving import (
    GIVEN,
    NOTHING,
    Run,
    Work,
    driven,
    expect_all_back,
    expect_available,
    expect_ends,
    expect_legal,
    expect_samples,
    expect_trace,
    own_cache,
    plain_cache,
    refuse,
    scheduler_of,
)


@cases("schedule_one")
def test_scheduler_runs(student: Student, case: Case) -> None:
    """It runs: something of a request is computed.

    能运行：计算了一个请求的内容。
    """
    driven(student, case)


@checks("""
    test_scheduler_chunks: schedule_one schedule_chunks
        Prompts longer than the budget are computed in chunks, the oldest first.
        超过预算的提示分段计算，先到的请求优先。

    test_scheduler_decodes: schedule_decodes
        A request that generates gets a token in every step, however long the other prompts.
        正在生成的请求每步都得到一个 token，不论其他提示有多长。

    test_scheduler_crowd: schedule_crowd
        No more than max_running run at once; one that ends or stops makes room for the next.
        同时运行的不超过 max_running；结束或停止的请求为下一个腾出位置。

    test_scheduler_arrivals: schedule_arrivals
        No request comes in before it arrives, or before one that arrived earlier.
        任何请求都不早于到达时间进入，也不先于更早到达的请求。

    test_scheduler_room: schedule_room
        No request comes in without blocks for its whole text, and none passes the first in line.
        没有足够的块容纳全部文本就不进入；也没有请求越过队首。

    test_scheduler_tight: schedule_tight schedule_alone schedule_back
        When blocks run out, the youngest goes back, and its whole text is computed again.
        块用完时，最晚到达的请求退回队列，之后重新计算它的全部文本。

    test_scheduler_trace: schedule_mixed schedule_waits
        A trace of arrivals is served as the docstring says, step by step.
        一串到达的请求按文档字符串逐步处理。
    """)
def _expect_steps(student: Student, case: Case) -> None:
    run = driven(student, case)
    expect_trace(run)
    expect_ends(run)
    if case.recipe == "schedule_arrivals":  # the same, whenever they are added
        expect_trace(driven(student, case, late=True))


@cases("schedule_tables", "schedule_crowd")
def test_scheduler_tables(student: Student, case: Case) -> None:
    """Block tables lead to what was written; available is right after every step and at the end.

    块表指向写入的内容；每一步之后与结束时，available 都正确。
    """
    run = driven(student, case)
    expect_legal(run)
    expect_samples(run)
    expect_all_back(run)
    expect_available(run)


@cases("schedule_fills")
def test_scheduler_fills(student: Student, case: Case) -> None:
    """Every full block is registered once computed, with all tokens up to its end.

    每个填满的块都在计算之后登记，并附上到块尾为止的所有 token。
    """
    run, (_, size, *_) = driven(student, case), case["sizes"]
    want: set[tuple[int, int, tuple[int, ...]]] = set()
    for work in run.works:
        for place in range(work.start // size, work.end // size):
            text = tuple(run.text[work.request][: (place + 1) * size])
            if len(work.blocks) > place:
                want.add((work.step, work.blocks[place], text))
    for row in sorted({*run.fills} ^ want):
        step, block, text = row
        what = Text(
            f"the text with which block {block} is made known in step {step}",
            f"第 {step} 步登记块 {block} 时附上的文本",
        )
        right, got = (
            [list(t) for s, b, t in sorted(rows) if (s, b) == (step, block)]
            for rows in (want, run.fills)
        )
        words = Text(
            "nothing (no token that this step computes fills it)",
            "空（这一步计算的 token 没有填满它）",
        )
        for later in (s for s, b, t in sorted(want) if (b, t) == (block, text) and s > step):
            words = Text(f"nothing (step {later} fills it)", f"空（第 {later} 步才填满它）")
        told, said = (", ".join(map(str, texts)) for texts in (right, got))
        words = Text(told, told) if right else words
        refuse(Text(said, said) if got else NOTHING, words, run.case, what)


@cases("schedule_known")
def test_scheduler_reuses(student: Student, case: Case) -> None:
    """What the cache finds is not computed, takes no new blocks, and leaves others the budget.

    缓存中找到的部分不再计算，不占用新的块，也不占用后面请求的预算；其余部分都计算。
    """
    found = {int(i): int(count) for i, count in case["found"]}
    run = driven(student, case, plain_cache(student, case, case["known"]))
    expect_legal(run, found)
    _expect_starts(run, found)
    expect_trace(run)
    expect_available(run)


def _expect_starts(run: Run, found: dict[int, int]) -> None:
    for i, count in found.items():
        starts = [work.start for work in run.works if work.request == i]
        what = Text(f"the first position that request {i} computes", f"请求 {i} 计算的首个位置")
        if starts[:1] != [count]:
            refuse(starts[0] if starts else NOTHING, Text(str(count), str(count)), run.case, what)


@cases("schedule_turns")
def test_scheduler_turns(student: Student, case: Case) -> None:
    """With your PrefixCache, the next turn recomputes only what fills no block.

    配合你的 PrefixCache：下一轮对话不再计算前几轮的内容，除了不满一块的部分。
    """
    run = driven(student, case, own_cache(student, case))
    expect_legal(run)
    _expect_starts(run, {int(i): int(count) for i, count in case["found"]})
    expect_all_back(run)


@cases("schedule_pressed", "schedule_again")
def test_scheduler_pressed(student: Student, case: Case) -> None:
    """With your PrefixCache and too few blocks, all texts come out, and whoever goes back waits.

    配合你的 PrefixCache，块不够用时所有文本仍能完成；退回的请求在这一步不再进入。
    """
    run = driven(student, case, own_cache(student, case))
    expect_legal(run)
    _expect_away(run)
    expect_samples(run)
    expect_all_back(run)


def _expect_away(run: Run) -> None:
    """Who goes back computes nothing in that step, even if the cache holds its beginning."""
    last: dict[int, Work] = {}
    for work in run.works:
        before = last.get(work.request)
        if before is not None and before.step + 1 == work.step and before.end != work.start:
            what = Text(
                f"what request {work.request}, which goes back in step {work.step}, computes in it",
                f"请求 {work.request} 在第 {work.step} 步退回，它在这一步计算的内容",
            )
            want = Text(
                "nothing (in such a step nobody comes in)", "空（有请求退回的一步不放入任何请求）"
            )
            part = f"{work.start}…{work.end - 1}"
            refuse(Text(f"positions {part}", f"位置 {part}"), want, run.case, what)
        last[work.request] = work


@cases("schedule_refuses")
def test_scheduler_refuses(student: Student, case: Case) -> None:
    """What can never be served is refused with a ValueError, and what just fits is not.

    永远无法完成的请求以 ValueError 拒绝；恰好放得下的则接受。
    """
    blocks, size, _, most = case["sizes"]
    full = blocks * size
    rows = [[1, [5] * (full - 3), 4, 0, 0], [2, [6] * full, 1, 0, 0]]
    cache = plain_cache(student, case)
    student.call(f"{GIVEN}.drive", scheduler_of(student, case, cache), cache, Literal(rows))
    student.flush()
    for prompt, new, en, zh in (
        ([5] * (full - 3), 5, f"{full + 1} tokens never fit.", f"{full + 1} 个 token 永远放不下。"),
        ([], 3, "there is no prompt.", "没有提示。"),
        ([5], 0, "no token is asked for.", "没有要求生成 token。"),
    ):
        scheduler = scheduler_of(student, case, plain_cache(student, case))
        request = student.new(f"{GIVEN}.Request", 7, Literal(tuple(prompt)), new)
        student.flush()
        result = student.call(scheduler, request, method="add")
        expect_error(result, "ValueError", "", case, Text(en, zh))
        line = student.new("builtins.getattr", scheduler, "waiting")
        what = Text("how many wait after that", "此后等待的请求数")
        expect_value(student.call("builtins.len", line), 0, case, what)
    small = student.call("engine.Scheduler", plain_cache(student, case), most - 1, most)
    why = Text(f"{most} requests need {most} tokens.", f"{most} 个请求需要 {most} 个 token。")
    expect_error(small, "ValueError", "", case, why)
    student.call("engine.Scheduler", plain_cache(student, case), most, most)
    student.flush()

"""What a student reads about ranks: who, in which call, in both languages."""

from __future__ import annotations

import pytest

from autograder.checks.expect import CheckFailed, expect_collectives
from autograder.course.messages import render
from autograder.course.records import Outcome, Text
from autograder.judge import outcomes
from autograder.reference.cases import Case
from autograder.sandbox.links import WorkerLost
from autograder.sandbox.ranks import MOST_COLLECTIVES, Group, OutOfStep, RankLost, RankResult

CASE = Case("a", "a", False, Text("a case", "一个用例"), {})
SUM, GATHER = "all_reduce float32 [3] (sum)", "all_gather float32 [3]"


def sentences(error: Exception) -> tuple[str, str, Outcome]:
    if isinstance(error, WorkerLost):
        result = outcomes.lost(error, CASE)
    else:
        assert isinstance(error, OutOfStep)
        result = outcomes.raised(error, CASE, file="attention.py", exercise="lab5.row", given=())
    assert result.message is not None
    return render(result.message, "en"), render(result.message, "zh"), result.outcome


def lost(text: str, waiting: dict[int, str], **more: object) -> RankLost:
    return RankLost(WorkerLost(text, **more), 1, 4, waiting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "en", "zh", "outcome"),
    [
        (
            OutOfStep([2], {0: SUM, 1: SUM, 3: SUM}),
            "rank 2 returned without the all_reduce in which ranks 0, 1 and 3 still waited",
            "rank 0、1、3 正在 all_reduce 中等待，而 rank 2 没有调用它就返回了（一个用例）",
            Outcome.FAILED,
        ),
        (
            OutOfStep([1, 3], {0: SUM, 2: SUM}),
            "ranks 1 and 3 returned without the all_reduce in which ranks 0 and 2 still waited",
            "而 rank 1、3 没有调用它就返回了",
            Outcome.FAILED,
        ),
        (
            OutOfStep([], {0: SUM, 1: GATHER}),
            f"rank 0 called {SUM}, rank 1 called {GATHER} (a case)",
            f"rank 0 调用的是 {SUM}，rank 1 调用的是 {GATHER}",
            Outcome.FAILED,
        ),
        (
            lost("signal SIGKILL", {0: SUM, 2: SUM, 3: SUM}),
            "rank 1 (of 4) ended: signal SIGKILL, while ranks 0, 2 and 3 waited for it in all_red",
            "的进程结束了：信号 SIGKILL，而 rank 0、2、3 正在 all_reduce 中等待它",
            Outcome.CRASHED,
        ),
        (
            lost("exit status 3", {}),
            "the process of rank 1 (of 4) ended: exit status 3 (a case)",
            "rank 1（共 4 个）的进程结束了：退出状态 3（一个用例）",
            Outcome.CRASHED,
        ),
        (
            lost(f"more than {MOST_COLLECTIVES} collectives", {}),
            f"ended: more than {MOST_COLLECTIVES} collectives",
            f"集合通信超过 {MOST_COLLECTIVES} 次",
            Outcome.CRASHED,
        ),
        (
            lost("2", {0: SUM}, timed_out=True),
            "rank 1 (of 4) was stopped after 2 s of CPU time, while rank 0 waited for it in all_re",
            "运行 2 秒（CPU 时间）后被终止，而 rank 0 正在 all_reduce 中等待它",
            Outcome.TIMED_OUT,
        ),
        (
            lost("20", {}, timed_out=True, clock="wall"),
            "rank 1 (of 4) was stopped after 20 s of wall time; a correct solution",
            "运行 20 秒（实际时间）后被终止",
            Outcome.TIMED_OUT,
        ),
    ],
)
def test_a_sentence_says_who_and_where(
    error: Exception, en: str, zh: str, outcome: Outcome
) -> None:
    said_en, said_zh, found = sentences(error)
    assert en in said_en
    assert zh in said_zh
    assert found is outcome


def test_too_many_collectives_are_listed() -> None:
    result = RankResult(Group.__new__(Group), [])
    why = Text("one is enough.", "一次就够。")
    result.calls = ("all_reduce",)
    expect_collectives(result, 1, CASE, why)
    for calls, listed in (((), "–"), (("all_gather", "barrier"), "all_gather, barrier")):
        result.calls = calls
        with pytest.raises(CheckFailed) as caught:
            expect_collectives(result, 1, CASE, why)
        said = render(caught.value.message, "en")
        assert f"{len(calls)} collective calls in one forward pass ({listed})" in said
        assert "一次就够。" in render(caught.value.message, "zh")

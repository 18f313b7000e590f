"""Stages: found in what torch made, whatever its layout or pieces; what follows counts, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from autograder.course.records import Text
from autograder.diagnosis.items import (
    COLUMNS,
    MAX_STEPS,
    Stage,
    StagePlan,
    from_plain,
    furthest,
    to_plain,
)
from autograder.worker import session
from autograder.worker.session import summary

DRAW = torch.Generator().manual_seed(0)
Q, K, SUM, OUT = (torch.randn(2, 3, 4, generator=DRAW) for _ in range(4))


def stage(name: str, tensor: torch.Tensor, *after: str, ordered: bool = False) -> Stage:
    return Stage(name, Text(name, name), after, (tuple(summary(tensor)),), ordered)


STAGES = (
    stage("q", Q),
    stage("k", K),
    stage("sum", SUM, "q", "k"),
    stage("out", OUT, "sum", ordered=True),
)


def after(*made: torch.Tensor, stages: Sequence[Stage] = STAGES) -> tuple[list[str], list[str]]:
    rows = np.array([summary(tensor) for tensor in made]).reshape(-1, COLUMNS)
    right, _, wrong = furthest(stages, rows)
    return [s.id for s in right], [s.id for s in wrong]


def other(count: int = 4) -> list[torch.Tensor]:
    """Tensors of that size that are no stage."""
    return [torch.randn(2, 3, 4, generator=DRAW) for _ in range(count)]


def test_the_first_stage_that_differs() -> None:
    assert after(*other()) == ([], ["q", "k"])
    assert after(Q, *other()) == ([], ["k"])
    assert after(Q, K, *other(2)) == (["q", "k"], ["sum"])
    assert after(Q, K, SUM, *other(1)) == (["sum"], ["out"])
    assert after(Q, K, SUM, OUT) == ([], [])


def test_a_stage_that_never_was_a_tensor_counts_when_the_next_one_is_right() -> None:
    assert after(SUM, *other(1)) == (["sum"], ["out"])
    assert after(OUT) == ([], [])


def test_of_what_was_never_made_as_a_whole_nothing_is_said() -> None:
    assert after() == after(Q, K) == after(Q[0], K[0]) == ([], [])
    wrong = other(1)  # one tensor is not two stages: it is the last of them
    assert after(Q, K, *wrong) == after(*other(2), Q, K, *wrong) == (["q", "k"], ["out"])
    assert after(Q, K, Q.mT, Q.repeat(2, 1, 1), *wrong) == (["q", "k"], ["out"])
    small = stage("small", SUM[0], "q", "k"), stage("out", OUT, "small")
    assert after(Q, K, *wrong, stages=(*STAGES[:2], *small)) == (["q", "k"], ["out"])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_stage_is_found_in_what_a_loop_makes_of_it(axis: int) -> None:
    parts = [part for each in SUM.split(1, axis) for part in (each * 2, each + 3, each)]
    assert after(Q, K, *parts, *other(1)) == (["sum"], ["out"])
    assert after(Q, K, *parts[3:], *other(1)) == (["q", "k"], ["out"])


def test_layout_does_not_matter_unless_it_is_given() -> None:
    assert after(Q.permute(2, 0, 1), K.reshape(-1), SUM.mT, *other(1))[1] == ["out"]
    assert after(Q, K, SUM, OUT.mT.contiguous())[1] == ["out"]
    assert after(Q, K, SUM, OUT + 1e-6)[1] == []
    joined = (*STAGES[:3], stage("joined", SUM.mT, "sum", ordered=True))
    assert after(Q, K, SUM, SUM.mT, SUM.permute(2, 0, 1), stages=joined)[1] == ["joined"]
    assert after(Q, K, SUM, SUM.permute(2, 0, 1), SUM.mT, stages=joined)[1] == []
    assert after(Q, K * 1.001, *other(2))[1] == ["k"]


def test_what_may_stand_in_another_order_is_told_apart() -> None:
    def loose(*made: torch.Tensor) -> list[str]:
        rows = np.array([summary(tensor) for tensor in (*made, *other(2))])
        return [one.id for one in furthest(STAGES, rows)[1]]

    assert loose(Q, K.mT) == loose(K.mT, Q, K[0], K[1]) == ["k"]
    assert loose(Q, K) == loose(Q, K.mT, K) == loose(Q.mT, K.mT, SUM) == []
    assert loose(*SUM.split(1)) == ["sum"]


def test_what_is_scaled_once_more_is_not_yet_scaled() -> None:
    both = tuple(tuple(summary(one)) for one in (SUM, SUM / 4))
    course = (
        *STAGES[:2],
        Stage("sum", Text("", ""), ("q", "k"), both),
        stage("scaled", SUM / 4, "sum"),
        stage("out", OUT, "scaled"),
    )
    assert after(SUM / 4, *other(1), stages=course) == (["scaled"], ["out"])
    for factor in (1 / 4, 1.01, 8):
        twice = SUM / 4, SUM / 4 * factor
        assert after(*twice, *other(1), stages=course) == (["sum"], ["scaled"])
        parts = [one[n] for n in range(2) for one in twice]
        assert after(*parts, *other(1), stages=course) == (["sum"], ["out"])
    # In two steps, or for a softmax to base 2.
    assert after(SUM / 2, SUM / 4, *other(1), stages=course) == (["scaled"], ["out"])
    base_2 = SUM / 4 / np.log(2)
    assert after(SUM, SUM / 4, base_2, *other(1), stages=course) == (["scaled"], ["out"])
    assert after(SUM, *other(2), stages=course) == (["sum"], ["scaled"])


def test_what_torch_makes_is_written_down_under_any_name() -> None:
    with session.recorded_tensors() as steps:
        torch.einsum("abc->cab", Q * 1.0).chunk(2)[0].add_(0)
    table = steps.table().numpy()
    assert (table.shape[1], session.MAX_STEPS) == (COLUMNS, MAX_STEPS)
    assert furthest((STAGES[0],), table) == ((), (), ())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [0, -1, 0.5, 2, 1e300, np.inf, -np.inf, np.nan])
def test_whatever_is_written_down_is_bounded(value: float) -> None:
    for size in (12, value):
        table = np.full((100_000, COLUMNS), value)
        table[:, 0] = size
        assert furthest(STAGES, table) == ((), (), ())


def test_stages_come_back_from_json() -> None:
    course = StagePlan("test_parity", "core-public-0", STAGES)
    assert from_plain(to_plain(course)) == course

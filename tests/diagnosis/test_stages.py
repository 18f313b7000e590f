"""Stages: found in what torch made, whatever its layout; what is made from them counts, too."""

from __future__ import annotations

import numpy as np
import torch

from autograder.course.records import Text
from autograder.diagnosis.items import COLUMNS, Stage, StagePlan, from_plain, furthest, to_plain
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


def after(*made: torch.Tensor) -> tuple[list[str], list[str]]:
    rows = np.array([summary(tensor) for tensor in made]).reshape(-1, COLUMNS)
    right, wrong = furthest(STAGES, rows)
    return [s.id for s in right], [s.id for s in wrong]


def test_the_first_stage_that_differs() -> None:
    assert after() == ([], ["q", "k"])
    assert after(Q) == ([], ["k"])  # what is made from both says so
    assert after(Q, K) == (["q", "k"], ["sum"])
    assert after(Q, K, SUM) == (["sum"], ["out"])
    assert after(Q, K, SUM, OUT) == ([], [])


def test_a_stage_that_never_was_a_tensor_counts_when_the_next_one_is_right() -> None:
    assert after(SUM) == (["sum"], ["out"])
    assert after(OUT) == ([], [])


def test_layout_does_not_matter_unless_it_is_given() -> None:
    assert after(Q.permute(2, 0, 1), K.reshape(-1), SUM.mT)[1] == ["out"]
    assert after(Q, K, SUM, OUT.mT.contiguous())[1] == ["out"]
    assert after(Q, K, SUM, OUT + 1e-6)[1] == []
    assert after(Q, K * 1.001)[1] == ["k"]


def test_what_torch_makes_is_written_down_under_any_name() -> None:
    with session.recorded_tensors() as steps:
        torch.einsum("abc->cab", Q * 1.0).chunk(2)[0].add_(0)
    table = steps.table().numpy()
    assert table.shape[1] == COLUMNS
    assert furthest((STAGES[0],), table) == ((), ())


def test_stages_come_back_from_json() -> None:
    course = StagePlan("test_parity", "core-public-0", STAGES)
    assert from_plain(to_plain(course)) == course

"""Checks of ``model.py``."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, expect_close, expect_items, expect_shape, expect_tensor
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor


@cases("pairs")
def test_shuffle_pairs(student: Student, case: Case) -> None:
    """Every input keeps its target, and none is lost."""
    result = student.call("model.shuffle", case["x"], case["y"], case["seed"])
    x, y = (expect_tensor(item, case) for item in expect_items(result, 2, case))
    by_target = np.argsort(y.array, kind="stable")
    expect_close(Tensor.of(y.array[by_target]), case["y"], case, Text("the sorted targets"))
    expect_close(Tensor.of(x.array[by_target]), case["x"], case, Text("inputs by target"))


@cases("pairs")
def test_shuffle_repeats(student: Student, case: Case) -> None:
    """Equal seeds give equal orders, others another one."""
    asked = [student.call("model.shuffle", case["x"], case["y"], s) for s in (3, 3, 4)]
    first, again, other = (expect_items(result, 2, case)[1] for result in asked)
    same = Tensor.of(np.array([(first.array == t.array).all() for t in (again, other)]))
    expect_close(same, Tensor.of(np.array([True, False])), case, Text("same order, by seed"))


@checks("""
    test_loss_mean: tokens
        It is the mean of -log p(target).

    test_loss_padding: padded
        Targets of -1 are padding and do not count.
    """)
def _expect_loss(student: Student, case: Case) -> None:
    expect_close(student.call("model.loss", case["logits"], case["targets"]), case["y"], case)


@cases("cell")
def test_cell_runs(student: Student, case: Case) -> None:
    """It runs and gives h and c [B, size]."""
    cell = student.new("model.Cell", case["inputs"], case["size"], weights=case.weights)
    for item in expect_items(cell(case["x"], case["h"], case["c"]), 2, case):
        expect_shape(item, case["h"].shape, case)


@checks("""
    test_cell_memory: open shut
        The forget gate keeps or drops what the cell knew.

    test_cell_parity: cell
        The numbers equal those of torch.nn.LSTMCell.
    """)
def _expect_step(student: Student, case: Case) -> None:
    cell = student.new("model.Cell", case["inputs"], case["size"], weights=case.weights)
    h, c = expect_items(cell(case["x"], case["h"], case["c"]), 2, case)
    expect_close(h, case["next_h"], case, Text("h"))
    expect_close(c, case["next_c"], case, Text("c"))

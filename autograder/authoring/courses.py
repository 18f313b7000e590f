"""Computes the stages that a lab's ``solutions/<lab>/stages.py`` describes, for its bank."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.authoring.place import Place
from autograder.course.records import Text
from autograder.diagnosis.stages import Course, Stage
from autograder.harness.plan import Plan
from autograder.sandbox.traced import summary
from autograder.sandbox.values import to_torch
from labs.given.config import Qwen3Config


@dataclass(frozen=True, init=False)
class Step:
    """A stage with its tensor (or tensors: each way to compute it that is as good)."""

    id: str
    name: Text
    after: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    ordered: bool

    def __init__(
        self, id: str, name: Text, after: tuple[str, ...], *tensors: Tensor, ordered: bool = False
    ) -> None:
        fields = {"id": id, "name": name, "after": after, "tensors": tensors, "ordered": ordered}
        for key, value in fields.items():
            object.__setattr__(self, key, value)


Steps = Iterator[Step]


def of_lab(place: Place, plan: Plan) -> dict[str, Course]:
    """The stages of every exercise that the lab describes, on the first case of their check.

    Raises:
        ValueError: a check that is named has no case.
    """
    path = place.solution / "stages.py"
    if not path.is_file():
        return {}
    spec = importlib.util.spec_from_file_location(f"stages_of_{place.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for exercise, (check, steps_of) in module.STAGES.items():
        trials = plan.trials.get(check, ())
        if not trials:
            raise ValueError(f"{path}: {exercise}: {check} is no check with cases")
        case = trials[0].case
        weights = {name: to_torch(tensor) for name, tensor in case.weights.items()}
        with torch.no_grad():
            steps = steps_of((Qwen3Config(**case.config), weights, to_torch(case["x"])))
            stages = tuple(_stage(step) for step in steps)
        found[exercise] = Course(check, case.name, stages)
    return found


def _stage(step: Step) -> Stage:
    rows = tuple(tuple(summary(tensor.contiguous())) for tensor in step.tensors)
    return Stage(step.id, step.name, step.after, rows, step.ordered)

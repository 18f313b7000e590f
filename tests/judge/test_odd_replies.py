"""No answer of a hand-in makes a check fail as if that were the grader's fault.

Every check of every lab is asked about tensors of every dtype and of every shape that its case
knows, and about values that are no tensors: it passes, or says what is wrong with the answer.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from autograder.checks.expect import CheckFailed, NotCounted
from autograder.checks.plan import collect
from autograder.course import labfile
from autograder.course.records import Lab
from autograder.reference import cases
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.ranks import RankReplies, Request
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply
from autograder.wire.messages import _DTYPES, Tensor

LABS = [labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml"))]
Check = Callable[[Student, Case], None]
# As a worker counts them, so that it is the result that is odd.
COSTS = {
    **dict.fromkeys(("peak", "largest"), 1 << 40), "flops": 1 << 50, "alive": 3, "line": 0,
    **dict.fromkeys(("over", "fenced", "kept"), False), **dict.fromkeys(("kind", "file"), ""),
    "operator": "add", "shape": {"$list": [2, 3]},
}  # fmt: skip


def checks(lab: Lab) -> Iterator[tuple[str, Check, tuple[Case, ...]]]:
    """The check functions of a lab, with the cases (one of each recipe) that they run on."""
    known = {case.recipe: case for case in cases.load(lab.folder / "cases.safetensors")}
    for path in sorted((lab.folder / "checks").glob("test_*.py")):
        module = importlib.import_module(f"labs.{lab.name}.checks.{Path(path).stem}")
        for check in lab.checks:
            if hasattr(module, check.name):
                function = getattr(module, check.name)
                recipes = function.pytestmark[0].args
                found = tuple(known[recipe] for recipe in recipes if recipe in known)
                yield f"{lab.name.split('_')[0]}-{check.name}", function, found


CHECKS = {name: (check, found) for lab in LABS for name, check, found in checks(lab)}


class Odd:
    """A worker that gives one and the same answer to everything."""

    def __init__(self, tree: Any, tensors: Mapping[str, Tensor]) -> None:
        self.tree, self.tensors = tree, tensors

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        values = []
        for step in request["steps"]:
            value = self.tree
            if step.get("operators"):
                value = {"$list": [value, {"$list": ["f"]}]}
            elif step.get("echo"):
                args = {"$list": [self.tree for _ in step["args"]]}
                kwargs = {"$dict": [[name, self.tree] for name in step["kwargs"]]}
                value = {"$list": [value, args, kwargs]}
            elif "measure" in step:
                costs = {"$dict": [[name, cost] for name, cost in COSTS.items()]}
                value = {"$list": [value, costs]}
            values.append(value)
        out: dict[str, Tensor] = {}
        return {"values": [self._named(value, out) for value in values]}, out

    def _named(self, tree: Any, out: dict[str, Tensor]) -> Any:
        """As a worker writes it: a tensor stands in one place, under a name of its own."""
        if isinstance(tree, dict) and tree.get("$t") in self.tensors:
            out[f"r{len(out)}"] = self.tensors[tree["$t"]]
            return {"$t": f"r{len(out) - 1}"}
        if isinstance(tree, dict):
            return {key: self._named(value, out) for key, value in tree.items()}
        return [self._named(one, out) for one in tree] if isinstance(tree, list) else tree

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        replies = tuple(self.exchange(*request) for request in requests)
        return RankReplies(replies, ("all_reduce", "barrier", "barrier"))


def answers(case: Case) -> list[tuple[Any, dict[str, Tensor]]]:
    """What is answered to the questions of a case, which many checks ask."""
    shapes = {t.shape for name, t in case.tensors.items() if not name.startswith("w.")}
    return answers_like(frozenset(shapes))


@lru_cache(8)
def answers_like(shapes: frozenset[tuple[int, ...]]) -> list[tuple[Any, dict[str, Tensor]]]:
    """Trees and their tensors: tensors alone, in pairs and in dicts, and other values."""
    return list(_answers(shapes))


def _answers(shapes: frozenset[tuple[int, ...]]) -> Iterator[tuple[Any, dict[str, Tensor]]]:
    dice = random.Random(7)
    keys = ("embedding", "attention", "mlp", "norm", "lm_head", "total")
    for shape in sorted(shapes | {(), (1,), (0,), (0, 1 << 31, 1 << 10)}):
        count = 1
        for side in shape:
            count *= side
        for dtype, (_, raw) in _DTYPES.items():
            size = count * raw.itemsize
            for data in (bytes(size), dice.randbytes(size)) if size else (b"",):
                made = {"r": Tensor(dtype, shape, data)}
                yield {"$t": "r"}, made
                yield {"$tuple": [{"$t": "r"}] * 2}, made
    one = {"r": Tensor("int64", (), bytes(8))}
    plain = (None, True, -1, 1e999, float("nan"), 10**4000, "x" * 500)
    trees = ({"$list": []}, {"$tuple": [1, "2"]}, {"$dict": []}, {"$t": "gone"}, {"$t": "r"})
    for value in (*plain, *trees, {"$other": "a thing"}):
        yield value, one
        yield {"$dict": [[key, value] for key in keys]}, one
        yield {"$list": [value, value]}, one


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of bytes drawn by dice
@pytest.mark.parametrize("name", CHECKS)
def test_any_answer_passes_or_is_wrong_and_nothing_else(name: str) -> None:
    check, found = CHECKS[name]
    ends = set()
    for case in found:
        for tree, tensors in answers(case):
            try:
                check(Student(Odd(tree, tensors)), case)
                ends.add("passed")
            except (CheckFailed, NotCounted, StudentError, WorkerLost) as error:
                ends.add(type(error).__name__)
            except Exception as error:
                raise AssertionError(f"{tree!r:.200} {tensors!r:.200}") from error
    assert ends & {"CheckFailed", "NotCounted"} or not found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("lab", LABS, ids=[lab.name.split("_")[0] for lab in LABS])
def test_any_answer_to_an_experiment_shows_a_mistake_or_does_not(lab: Lab) -> None:
    for exercise, experiments in collect(lab.folder).behaviours.items():
        for mistake, check_case in experiments.items():
            for tree, tensors in answers(check_case.case):
                try:
                    says = check_case.run(Student(Odd(tree, tensors)), check_case.case)
                except (CheckFailed, StudentError, WorkerLost):
                    continue
                except Exception as error:
                    raise AssertionError(f"{exercise} {mistake} {tree!r:.200}") from error
                assert isinstance(says, bool), (exercise, mistake)

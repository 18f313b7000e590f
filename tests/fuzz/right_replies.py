"""The labs as the judge runs them: checks, public cases, and what a right worker replies."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from autograder.checks.plan import CheckCase, Plan
from autograder.course import labfile
from autograder.course.records import Check, Lab
from autograder.judge.runner import Runner
from autograder.reference import cases
from autograder.sandbox.links import Budget
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources, WorkerTransport
from autograder.wire.messages import pack, unpack
from autograder.worker.loader import read_sources

LAB = labfile.load(labfile.find_lab("2"))
LABS = tuple(labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml")))
PRINTS = "\x1b[31mprinted\x1b[0m\u202e\x00 {0}\n" * 40
MAX_BYTES = 300_000  # of a case: the long ones show nothing here that short ones do not


@dataclass(frozen=True, eq=False)
class SingleCheck:
    """One check on one case, alone in a lab, and the replies of a right worker in order."""

    check: Check
    lab: Lab
    check_case: CheckCase
    replies: tuple[bytes, ...]

    def plan(self, *, hidden: bool) -> Plan:
        """A plan of this check case alone."""
        case = replace(self.check_case.case, hidden=hidden)
        return Plan(self.lab, {self.check.name: (replace(self.check_case, case=case),)})


class Replying:
    """A worker that sends given replies, one per request, whatever is asked of it.

    It outlives being ended: the next worker goes on where it stopped.
    """

    def __init__(self, replies: Sequence[bytes]) -> None:
        self._replies = replies
        self.asked = 0

    def start(self) -> _Link:
        """A link to it, as a starter of workers makes them."""
        return _Link(self)

    def reply(self) -> bytes:
        """The next reply."""
        self.asked += 1
        return self._replies[min(self.asked, len(self._replies)) - 1]


HELLO = pack({"layers": ["rlimits"]}, {})


class _Link:
    def __init__(self, worker: Replying) -> None:
        self._worker = worker
        self._greeted = False

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        if not self._greeted:
            self._greeted = True
            return HELLO
        return self._worker.reply()

    def take_prints(self) -> str:
        return PRINTS

    def close(self) -> None:
        return None


class _Recorder(WorkerTransport):
    """Runs requests in this process and keeps the replies as they would travel."""

    def __init__(self, local: LocalTransport) -> None:
        self._local = local
        self.lost = 0
        self.asked_ranks = False
        self.replies: list[bytes] = []

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Any]) -> Any:
        self.replies.append(pack(*self._local.exchange(request, tensors)))
        return unpack(self.replies[-1])

    def exchange_ranks(self, requests: Any) -> Any:
        self.asked_ranks = True
        raise NotImplementedError

    def take_prints(self) -> str:
        return ""

    def renew(self) -> None:
        return None


def _functions(lab: Lab) -> dict[str, Any]:
    """The test functions of a lab by name."""
    found: dict[str, Any] = {}
    for path in sorted((lab.folder / "checks").glob("test_*.py")):
        module = importlib.import_module(f"labs.{lab.name}.checks.{path.stem}")
        found |= {name: f for name, f in vars(module).items() if name.startswith("test_")}
    return found


def alone(lab: Lab, check: Check, file: str) -> Lab:
    """A lab of this check only, which needs nothing and is worth 100."""
    exercise = next(e for e in lab.exercises if e.id == check.exercise)
    only = replace(check, needs=(), points=100, optional=False)
    return replace(lab, files=(file,), exercises=(replace(exercise, checks=(only,)),))


@cache
def single_checks() -> tuple[SingleCheck, ...]:
    """Every check that public cases serve, on the smallest of its cases; none that needs ranks."""
    return tuple(one for lab in LABS for one in single_checks_of(lab))


@cache
def single_checks_of(lab: Lab) -> tuple[SingleCheck, ...]:
    """The same of one lab."""
    sources, paths = read_sources(labfile.SOLUTIONS / lab.name, lab.files)
    local = LocalTransport(Sources(sources, paths, lab.given))
    public = cases.load(lab.folder / "cases.safetensors")
    functions, found = _functions(lab), []
    try:
        for exercise in lab.exercises:
            for check in exercise.checks:
                function = functions[check.name]
                recipes = [name for mark in function.pytestmark for name in mark.args]
                own = [case for case in public if case.recipe in recipes]
                sized = sorted((sum(len(t.data) for t in c.tensors.values()), c.name) for c in own)
                if not sized or sized[0][0] > MAX_BYTES:
                    continue
                case = next(case for case in own if case.name == sized[0][1])
                check_case = CheckCase(check.name, case, function)
                only, recorder = alone(lab, check, exercise.file), _Recorder(local)
                plan = Plan(only, {check.name: (check_case,)})
                (result,) = Runner(plan, recorder).run({}, set())
                if recorder.asked_ranks:
                    continue
                assert result.outcome.value == "passed", result
                found.append(SingleCheck(only.checks[0], only, check_case, tuple(recorder.replies)))
    finally:
        local.close()
    return tuple(found)

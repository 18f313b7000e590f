"""A pytest plugin that times the bare calls: what no grader can go below.

``python -m pytest CHECKS -p autograder.harness.plugin -p benchmarks.bare --bare-out FILE …``
lets grading's own runner ask a hand-in everything, writes the steps down, and replays them in
this warm process: constructors, strict loads and calls, all inputs decoded beforehand. Then
pytest runs its items, and what they ask is counted too.
"""

from __future__ import annotations

import gc
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from autograder.course.load_lab import read_sources
from autograder.harness import plugin
from autograder.harness.runner import Plan, Runner, Trial
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.session import Session
from autograder.sandbox.transport import Reply, Sources
from autograder.sandbox.values import decode, to_torch
from autograder.sandbox.wire import Tensor
from labs.given.config import Qwen3Config

Call = Callable[[dict[int, Any]], None]
_counts: dict[str, Counter[str]] = {"runner": Counter(), "pytest": Counter()}
_times: list[float] = []


@dataclass(frozen=True)
class _Handle:
    """Stands for an object that an earlier step of the same check makes."""

    number: int


class _Recorder:
    """A transport for grading's runner that executes here and turns every step into a call."""

    lost = 0

    def __init__(self, sources: Sources) -> None:
        self._session = Session(sources.files, sources.paths)
        self.calls: list[Call] = []

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        reply = self._session.execute(request, tensors)
        _count("runner", request)
        for step in request["steps"]:
            self.calls += _call(step, tensors, self._session)
        return reply

    def take_prints(self) -> str:
        return ""

    def renew(self) -> None:
        """Nothing to do: a right hand-in does not ruin its process."""

    def close(self) -> None:
        self._session.modules.remove()


def _call(step: dict[str, Any], tensors: Mapping[str, Tensor], session: Session) -> list[Call]:
    """A step as a closure over decoded inputs; importing a file is no call."""
    if step["op"] == "import":
        return []
    if step["op"] == "get":
        return [lambda objects: getattr(objects[step["target"]], step["name"])]
    args = decode(step["args"], tensors, _Handle, Qwen3Config)
    kwargs = decode(step["kwargs"], tensors, _Handle, Qwen3Config)
    target = step.get("path", step.get("target"))
    function = _Handle(target) if isinstance(target, int) else session._find(target)
    if step["op"] == "call":

        def call(objects: dict[int, Any]) -> None:
            with torch.no_grad():
                _here(function, objects)(
                    *(_here(a, objects) for a in args),
                    **{n: _here(a, objects) for n, a in kwargs.items()},
                )

        return [call]
    prefix, dtype = step["weights"], getattr(torch, step["dtype"])
    weights = {n: t for n, t in tensors.items() if prefix and n.startswith(prefix)}
    state = {name.removeprefix(prefix): to_torch(tensor) for name, tensor in weights.items()}

    def new(objects: dict[int, Any]) -> None:
        made = objects[step["as"]] = function(*args, **kwargs)
        if dtype is not torch.float32:
            made.to(dtype)
        if state:
            made.load_state_dict(state, strict=True)

    return [new]


def _here(value: Any, objects: dict[int, Any]) -> Any:
    return objects[value.number] if type(value) is _Handle else value


def _count(side: str, request: Mapping[str, Any]) -> None:
    _counts[side]["round_trips"] += 1
    _counts[side].update(step["op"] for step in request["steps"])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write, and how often to replay."""
    parser.addoption("--bare-out", type=Path)
    parser.addoption("--bare-repeats", type=int, default=15)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Record, replay, and leave the items to pytest."""
    lab = plugin.lab_of(session.config)
    trials: dict[str, tuple[Trial, ...]] = {}
    for item in session.items:
        case = plugin.case_of(item)
        assert case is not None and isinstance(item, pytest.Function)
        trial = Trial(item.originalname, case, item.obj)
        trials[trial.check] = (*trials.get(trial.check, ()), trial)
    files, paths = read_sources(Path(session.config.getoption("--hand-in")), lab.files)
    recorder = _Recorder(Sources(files, paths, lab.given))
    runner = Runner(Plan(lab, trials), recorder)  # type: ignore[arg-type]
    results = runner.run({}, set())
    _counts["runner"]["checks"] = len(trials)
    _counts["runner"]["passed"] = sum(result.outcome.value == "passed" for result in results)
    recorder.close()
    _replay(recorder.calls, session.config.getoption("--bare-repeats"))
    _watch_local_transport()


def _replay(calls: list[Call], repeats: int) -> None:
    gc.collect()
    gc.freeze()  # as in a worker: what pytest has made is not looked at again and again
    for _ in range(repeats):
        objects: dict[int, Any] = {}
        before = time.process_time()
        for call in calls:
            call(objects)
        _times.append(time.process_time() - before)


def _watch_local_transport() -> None:
    exchange = LocalTransport.exchange

    def counted(self: LocalTransport, request: dict[str, Any], tensors: Any) -> Reply:
        _count("pytest", request)
        return exchange(self, request, tensors)

    LocalTransport.exchange = counted  # type: ignore[method-assign]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the times (CPU seconds per replay, the first left out) and the counts."""
    items = [plugin.case_of(item) for item in session.items]
    cases = {case.name: case.hidden for case in items if case is not None}
    hidden = sum(cases.values())
    _counts["pytest"]["checks"] = len({getattr(i, "originalname", "") for i in session.items})
    found = {
        "cpu": median(_times[1:]),
        "times": _times,
        "items": len(items),
        "cases": {"public": len(cases) - hidden, "hidden": hidden},
        **{side: dict(counts) for side, counts in _counts.items()},
    }
    out: Path = session.config.getoption("--bare-out")
    out.write_text(json.dumps(found), encoding="utf-8")

"""A pytest plugin that times the bare calls: what no grader can go below.

``python -m pytest CHECKS -p autograder.checks.plugin -p benchmarks.bare --bare-out FILE …``
lets grading's own runner ask a hand-in everything, writes the steps down, and replays them in
this warm process: constructors, strict loads and calls, all inputs decoded beforehand. Then
pytest runs its items, and what they ask is counted too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from autograder.checks import plugin
from autograder.checks.plan import CheckCase, Plan
from autograder.judge.runner import Runner
from autograder.reference.cases import Case
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.ranks import RankReplies, Request
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply, Sources
from autograder.wire.messages import Tensor
from autograder.worker import collective
from autograder.worker.loader import read_sources
from autograder.worker.session import Session
from benchmarks.replay import Call, calls, replay

_counts: dict[str, Counter[str]] = {"runner": Counter(), "pytest": Counter()}
_times: list[float] = []
_running = [""]  # the check that asks now
_rank_checks: set[str] = set()


class _Recorder:
    """A transport for grading's runner that executes here and keeps every step as a call."""

    lost = 0

    def __init__(self, sources: Sources) -> None:
        self._session = Session(sources.files, sources.paths)
        self._ranks = LocalTransport(sources)
        self.calls: list[Call] = []

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        collective.stand_alone()
        reply = self._session.execute(request, tensors)
        _count("runner", request)
        self.calls += calls(request, tensors, self._session._find, reply[0])
        return reply

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Ranks are processes: what they cost is no matter of bare calls, and counts apart."""
        _counts["runner"]["rank_round_trips"] += 1
        _rank_checks.add(_running[0])
        return self._ranks.exchange_ranks(requests)

    def take_prints(self) -> str:
        return ""

    def renew(self) -> None:
        """Nothing to do: a right hand-in does not ruin its process."""

    def close(self) -> None:
        self._ranks.close()
        self._session.modules.remove()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write, and how often to replay."""
    parser.addoption("--bare-out", type=Path)
    parser.addoption("--bare-repeats", type=int, default=15)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Record, replay, and leave the items to pytest."""
    lab = plugin.lab_of(session.config)
    trials: dict[str, tuple[CheckCase, ...]] = {}
    for item in session.items:
        case = plugin.case_of(item)
        assert case is not None and isinstance(item, pytest.Function)
        trial = CheckCase(item.originalname, case, _noted(item))
        trials[trial.check] = (*trials.get(trial.check, ()), trial)
    files, paths = read_sources(Path(session.config.getoption("--hand-in")), lab.files)
    recorder = _Recorder(Sources(files, paths, lab.given))
    runner = Runner(Plan(lab, trials), recorder)  # type: ignore[arg-type]
    results = runner.run({}, set())
    recorder.close()
    _counts["runner"]["checks"] = len(trials)
    _counts["runner"]["passed"] = sum(result.outcome.value == "passed" for result in results)
    collective.stand_alone()
    _times.extend(replay(recorder.calls, session.config.getoption("--bare-repeats")))
    _watch_local_transport()


def _noted(item: pytest.Function) -> Callable[[Student, Case], None]:
    """The check, which says who it is when it begins."""

    def run(student: Student, case: Case) -> None:
        _running[0] = item.originalname
        item.obj(student, case)

    return run


def _watch_local_transport() -> None:
    exchange = LocalTransport.exchange

    def counted(self: LocalTransport, request: dict[str, Any], tensors: Any) -> Reply:
        _count("pytest", request)
        return exchange(self, request, tensors)

    LocalTransport.exchange = counted  # type: ignore[method-assign]


def _count(side: str, request: Mapping[str, Any]) -> None:
    _counts[side]["round_trips"] += 1
    _counts[side].update(step["op"] for step in request["steps"])


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
        "rank_checks": sorted(_rank_checks),
        **{side: dict(counts) for side, counts in _counts.items()},
    }
    out: Path = session.config.getoption("--bare-out")
    out.write_text(json.dumps(found), encoding="utf-8")

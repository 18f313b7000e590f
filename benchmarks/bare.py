"""A pytest plugin that times the bare calls: what no grader can go below.

``python -m pytest CHECKS -p autograder.checks.plugin -p benchmarks.bare --bare-out FILE …``
lets grading's own runner ask a hand-in everything, writes the steps down, and replays them in
this warm process: constructors, strict loads and calls, all inputs decoded beforehand.
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

_counts: Counter[str] = Counter()
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
        _counts["round_trips"] += 1
        _counts.update(step["op"] for step in request["steps"])
        self.calls += calls(request, tensors, self._session._find, reply[0])
        return reply

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Ranks are processes: what they cost is no matter of bare calls, and counts apart."""
        _counts["rank_round_trips"] += 1
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
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Record, replay, and write the times (CPU seconds per replay) and the counts."""
    lab = plugin.lab_of(session.config)
    asked: dict[str, tuple[CheckCase, ...]] = {}
    for item in session.items:
        case = plugin.case_of(item)
        assert case is not None and isinstance(item, pytest.Function)
        one = CheckCase(item.originalname, case, _noted(item))
        asked[one.check] = (*asked.get(one.check, ()), one)
    files, paths = read_sources(Path(session.config.getoption("--hand-in")), lab.files)
    recorder = _Recorder(Sources(files, paths, lab.given))
    # Of a transport it has what a right hand-in takes: nothing of it is forgiven or asked aside.
    results = Runner(Plan(lab, asked), recorder).run({}, set())  # type: ignore[arg-type]
    recorder.close()
    _counts["checks"] = len(asked)
    _counts["passed"] = sum(result.outcome.value == "passed" for result in results)
    collective.stand_alone()
    times = replay(recorder.calls, session.config.getoption("--bare-repeats"))
    cases = {one.case.name: one.case.hidden for group in asked.values() for one in group}
    hidden = sum(cases.values())
    found = {
        "cpu": median(times[1:]),
        "times": times,
        "cases": {"public": len(cases) - hidden, "hidden": hidden},
        "rank_checks": sorted(_rank_checks),
        "counts": dict(_counts),
    }
    out: Path = session.config.getoption("--bare-out")
    out.write_text(json.dumps(found), encoding="utf-8")
    return True  # its own loop would ask everything again


def _noted(item: pytest.Function) -> Callable[[Student, Case], None]:
    """The check, which says who it is when it begins."""

    def run(student: Student, case: Case) -> None:
        _running[0] = item.originalname
        item.obj(student, case)

    return run

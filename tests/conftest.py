"""Skips need an agreed reason; tests are spread over processes by how long they took before."""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests import zygotes
from tests.labs import is_left_out

# Thousands of tests are collected and stay: looking for garbage among them finds none.
gc.disable()
# Tests run side by side: a second thread of torch would only wait for its core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A busy machine is no fault, and what passes today has to pass tomorrow.
settings.register_profile(
    "any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
zygotes.share()

ALLOWED = Path(__file__).with_name("allowed_skips.txt")
DURATIONS = Path(__file__).with_name("durations.json")  # seconds of CI's processes, by group
_OF_LABS = re.compile(r"tests/(proof|mutation)/")
# In one process, as they share what takes long to start: transformers, and warm engines.
_TOGETHER = {
    "reference": re.compile(r"tests/reference/"),
    "commands": re.compile(
        r"tests/cli/test_(downloads|first_hour|grade_command|graded_folder|hint|languages|late"
        r"|recovery|shards|student_commands|watch)\.|tests/exports/test_(books|feedback|people|whole_way)\."
    ),
    "engines": re.compile(
        r"tests/(sandbox/test_(prefetcher|links)|judge/test_(diagnose|replay)"
        r"|grading/test_(engine|hostile|kept|lab1)|worker/test_(loader|preload))\."
    ),
}
_took: defaultdict[str, float] = defaultdict(float)


def group_of(nodeid: str) -> str:
    """What runs in one process: a module, or modules and proofs of a lab that share an engine."""
    if nodeid.startswith("tests/test_house.py"):
        return nodeid  # long ones, which share nothing
    for group, modules in _TOGETHER.items():
        if modules.match(nodeid):
            return group
    room = _OF_LABS.match(nodeid)
    if room is None:
        return nodeid.split("::")[0]
    lab = re.search(r"lab\d+", nodeid)
    return f"{room[1]} {lab[0] if lab else 'lab2'}"


class _Groups(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Groups in the order of the collection: the longest first, so that none is left over."""
    config.option.loadscopereorder = False
    return _Groups(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--record-durations`` writes anew what the order of groups is made of."""
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name}")


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest groups first (a new one is short); what `make check` leaves out is slow."""
    for item in items:
        if is_left_out(item.nodeid):
            item.add_marker(pytest.mark.slow)
    known = json.loads(DURATIONS.read_text(encoding="utf-8"))
    # By name, too: tests of one group are scattered where it has several modules.
    items.sort(key=lambda i: (-known.get(group := group_of(i.nodeid), 0), group, i.path))


def pytest_collection_finish() -> None:
    """Look for garbage among what comes now."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    """Let every process begin elsewhere: what one has compiled, the others need not."""
    report = yield
    if isinstance(collector, pytest.Directory):
        process = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
        processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        first = len(report.result) * int(process) // processes
        report.result = report.result[first:] + report.result[:first]
    return report


def _reasons() -> list[str]:
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Turn a skip whose reason nobody agreed to into a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        if not any(reason.startswith(allowed) for allowed in _reasons()):
            report.outcome = "failed"
            report.longrepr = f"skipped for a reason that is not in {ALLOWED.name}: {reason}"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what groups take."""
    _took[group_of(report.nodeid)] += report.duration


def pytest_sessionfinish() -> None:
    """End the engines that proofs have shared."""
    proofs = sys.modules.get("tests.proof.subject")  # of this process, if it ran any
    if proofs is not None:
        proofs.end_engines()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what this machine could not run."""
    if config.getoption("--record-durations"):
        seconds = {group: round(took) for group, took in sorted(_took.items()) if took >= 0.5}
        DURATIONS.write_text(json.dumps(seconds, indent=0) + "\n", encoding="utf-8")
    # Not collected on the way: the tests may run in other processes.
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    if skipped:
        reasons = sorted({str(reason).removeprefix("Skipped: ") for reason in skipped})
        terminalreporter.write_line(f"not run: {len(skipped)} ({'; '.join(reasons)})")

"""The checks of a lab as a plan, collected by pytest once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autograder.harness import plugin
from autograder.harness.plan import Plan, Trial

# Nothing outside of the lab takes part: no settings of the folder, no plugin, no cache.
# The last plugin collects garbage several times, for nothing.
WITHOUT = ("cacheprovider", "terminal", "unraisableexception")
QUIET = ("--assert=plain", "--capture=no", *(f"-pno:{name}" for name in WITHOUT))


def arguments(folder: Path, more: Sequence[str] = ()) -> list[str]:
    """What pytest is called with to collect the lab in ``folder``."""
    isolated = ["-c", os.devnull, "--rootdir", str(folder), "--import-mode=importlib"]
    isolated += ["-o", "python_files=test_*.py probes.py confirmations.py"]
    isolated += ["-o", "python_functions=test_ probe_ confirm_"]
    lab = [str(folder / "checks"), "--lab-folder", str(folder), *more]
    return [*QUIET, *isolated, *lab]


def plan_of(
    session: pytest.Session, guard: Callable[[pytest.Function], Callable[[], None]]
) -> Plan:
    """All trials of a session that has collected; ``guard`` gives each its clock."""
    lab = plugin.lab_of(session.config)
    trials: dict[str, list[Trial]] = {check.name: [] for check in lab.checks}
    probes: dict[str, list[Trial]] = {exercise.id: [] for exercise in lab.exercises}
    confirmations: dict[tuple[str, ...], Trial] = {}
    for item in session.items:
        case = plugin.case_of(item)
        if case is not None and isinstance(item, pytest.Function):
            name, exercise = item.originalname, plugin.probed(item)
            trial = Trial(name, case, item.obj, guard(item))
            if confirmed := plugin.confirmed(item):
                confirmations.setdefault(confirmed, trial)  # one case is enough
            elif not exercise:
                trials[name].append(trial)
            elif not case.hidden:  # what is said of them is shown
                probes[exercise].append(trial)
    return Plan(
        lab,
        {name: tuple(found) for name, found in trials.items()},
        {name: tuple(found) for name, found in probes.items() if found},
        confirmations,
    )


class _Collector:
    plan: Plan | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.plan = plan_of(session, lambda item: lambda: None)
        return True


def collect(folder: Path) -> Plan:
    """The plan of the lab in ``folder`` on its public cases, collected in this process.

    Raises:
        ValueError: its checks cannot be collected (pytest says why on standard error).
    """
    collector = _Collector()
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_ADDOPTS", raising=False)  # options for somebody's own tests
        status = pytest.main(arguments(folder), plugins=[plugin, collector])
    # pytest knows them by names that the files of another lab have, too.
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]
    if collector.plan is None:
        raise ValueError(f"{folder / 'checks'}: pytest could not collect it (status {status})")
    return collector.plan

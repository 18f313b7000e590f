"""The plan of a lab: checks on their cases, collected once for a whole class."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autograder.checks import plugin
from autograder.course.records import Lab
from autograder.reference.cases import Case
from autograder.sandbox.prefetcher import Coming, ForeseenRequest
from autograder.sandbox.sharing import SharedReplies
from autograder.sandbox.student import Student


@dataclass(frozen=True)
class CheckCase:
    """One check on one case: the pytest item's function, called without pytest around it.

    A check returns nothing and raises CheckFailed; an experiment says whether a mistake is there.
    """

    check: str
    case: Case
    run: Callable[[Student, Case], bool | None]
    guard: Callable[[], None] = lambda: None


class RequestHistory:
    """Requests of checks, learned from hand-ins that pass (:mod:`autograder.sandbox.prefetcher`).

    That is one request as a rule; a check that makes several on a case is not foreseen.
    """

    def __init__(self) -> None:
        self._questions: dict[tuple[str, str, bool], ForeseenRequest] = {}

    def learn(self, check: str, case: Case, student: Student) -> None:
        """A check has passed on a case, and the student's side tells what it took."""
        place = check, case.name, student.began_fresh
        if place in self._questions or len(student.requests) != 1:
            return
        asked = ForeseenRequest(*student.requests[0])
        equal = next((one for one in self._questions.values() if one.is_same(asked)), None)
        if equal is not None:
            equal.repeated = True
        self._questions[place] = equal or asked

    def coming(self, rest: Iterable[Sequence[CheckCase]], number: int) -> Coming:
        """Return what will be asked, up to the first check case of which nobody knows.

        Args:
            rest: the cases of one check after the other.
            number: those of the first check that have been run already.
        """
        for check_cases in rest:
            for place, check_case in enumerate(check_cases):
                if place < number:
                    continue
                question = self._questions.get((check_case.check, check_case.case.name, place == 0))
                if question is None:
                    return
                # Other cases of a check run in the namespaces of its first: that has to run, too.
                yield question, len(check_cases) == 1
            number = 0


@dataclass(frozen=True)
class Plan:
    """All check cases of a lab by check, collected once and run for every hand-in.

    ``confirmations``, by the checks whose counts they confirm, are asked as the judge decides.
    ``behaviours``, by exercise and mistake, are asked where answers give no name.
    ``history`` grows from hand-in to hand-in, and so does what is ``shared`` by known ones.
    """

    lab: Lab
    check_cases: dict[str, tuple[CheckCase, ...]]
    confirmations: dict[tuple[str, ...], CheckCase] = field(default_factory=dict)
    behaviours: dict[str, dict[str, CheckCase]] = field(default_factory=dict)
    history: RequestHistory = field(default_factory=RequestHistory)
    shared: SharedReplies = field(default_factory=SharedReplies)

    def split(self, *, hidden: bool) -> dict[str, tuple[CheckCase, ...]]:
        """The check cases by check, on hidden cases or on public ones."""
        return {
            name: tuple(one for one in its if one.case.hidden == hidden)
            for name, its in self.check_cases.items()
        }

    def shuffled(self, seed: str) -> Plan:
        """The same check cases, those of every check in an order that ``seed`` decides.

        Where a check or a case is taken away, the others keep their order: what was kept of a
        hand-in can be judged by the lab of today.
        """

        def place(one: CheckCase) -> bytes:
            return hashlib.sha256(f"{seed} {one.case.name}".encode()).digest()

        mixed = {name: tuple(sorted(its, key=place)) for name, its in self.check_cases.items()}
        return replace(self, check_cases=mixed)


# The checks of a lab as a plan, collected by pytest once.

# Nothing outside of the lab takes part: no settings of the folder, no plugin, no cache.
# The last plugin collects garbage several times, for nothing.
WITHOUT = ("cacheprovider", "terminal", "unraisableexception")
QUIET = ("--assert=plain", "--capture=no", *(f"-pno:{name}" for name in WITHOUT))


def arguments(folder: Path, more: Sequence[str] = ()) -> list[str]:
    """Return what pytest is called with to collect the lab in ``folder``."""
    isolated = ["-c", os.devnull, "--rootdir", str(folder), "--import-mode=importlib"]
    isolated += ["-o", "python_files=test_*.py behaviours.py confirmations.py"]
    isolated += ["-o", "python_functions=test_ behaves_ confirm_"]
    lab = [str(folder / "checks"), "--lab-folder", str(folder), *more]
    return [*QUIET, *isolated, *lab]


def plan_of(
    session: pytest.Session, guard: Callable[[pytest.Function], Callable[[], None]]
) -> Plan:
    """All check cases of a session that has collected; ``guard`` gives each its clock."""
    lab = plugin.lab_of(session.config)
    check_cases: dict[str, list[CheckCase]] = {check.name: [] for check in lab.checks}
    confirmations: dict[tuple[str, ...], CheckCase] = {}
    behaviours: dict[str, dict[str, CheckCase]] = {}
    for item in session.items:
        case = plugin.case_of(item)
        if case is not None and isinstance(item, pytest.Function):
            check_case = CheckCase(item.originalname, case, item.obj, guard(item))
            if confirmed := plugin.confirmed(item):
                confirmations.setdefault(confirmed, check_case)  # one case is enough
            elif shown := plugin.behaviour_of(item):
                if not case.hidden:
                    behaviours.setdefault(shown[1], {}).setdefault(shown[0], check_case)
            else:
                check_cases[check_case.check].append(check_case)
    return Plan(
        lab,
        {name: tuple(found) for name, found in check_cases.items()},
        confirmations,
        behaviours,
    )


class _Collector:
    plan: Plan | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.plan = plan_of(session, lambda item: lambda: None)
        return True


def collect(folder: Path, more: Sequence[str] = ()) -> Plan:
    """The plan of the lab in ``folder`` on its public cases, collected in this process.

    Args:
        folder: of the lab.
        more: options of the plugin, as ``--hidden-cases FILE``.

    Raises:
        ValueError: its checks cannot be collected (pytest says why on standard error).
    """
    collector = _Collector()
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_ADDOPTS", raising=False)  # options for somebody's own tests
        status = pytest.main(arguments(folder, more), plugins=[plugin, collector])
    # pytest knows them by names that the files of another lab have, too.
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]
    if collector.plan is None:
        raise ValueError(f"{folder / 'checks'}: pytest could not collect it (status {status})")
    return collector.plan

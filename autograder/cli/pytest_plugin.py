"""Plain ``pytest`` in a course's or lab's folder: its public checks on the student's files.

An item is a check on a case. All that are selected run at once, in the jailed worker that ``make
test`` uses, when the first is due; an item then tells what became of its own. Every pytest of an
environment loads this module: it imports nothing of ours before a lab's checks are collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

    from autograder.course.records import CheckResult, ClassRecord, Lab

_GRADER = "autograder.checks.plugin"  # collects one lab for the judge or a debugger


class CheckNotPassed(Exception):
    """The outcome of a check that did not pass."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.check)
        self.result = result


class _Sentence(TerminalRepr):
    """Our sentence, where pytest would show a traceback; its first line is the summary's."""

    def __init__(self, lines: list[str], summary: str, path: str, line: int) -> None:
        self.lines = lines
        self.reprcrash = ReprFileLocation(path, line, summary)

    def toterminal(self, tw: TerminalWriter) -> None:
        for line in self.lines:
            tw.line(line)


class _LabRun:
    """A lab of this session: its cases by recipe, and once it has run what its checks came to."""

    def __init__(self, folder: Path) -> None:
        from autograder.course import labfile
        from autograder.reference import cases

        self.lab: Lab = labfile.load(folder)
        self.order = {check.name: place for place, check in enumerate(self.lab.checks)}
        self.exercises = {
            check.name: one.id.split(".") for one in self.lab.exercises for check in one.checks
        }
        self.cases: dict[str, list[str]] = {}
        for case in cases.load(folder / "cases.safetensors"):
            self.cases.setdefault(case.recipe, []).append(case.name)
        self._results: dict[str, CheckResult] = {}
        self._by_case: dict[tuple[str, str], CheckResult] = {}

    def result(self, item: CheckItem) -> CheckResult:
        """The outcome of an item; the first that asks waits for all of the lab."""
        if not self._results:
            items = [i for i in item.session.items if isinstance(i, CheckItem) and i.run is self]
            self._start({one.check for one in items})
        result = self._results[item.check]
        return self._by_case.get((item.check, item.case), result)

    def _start(self, chosen: set[str]) -> None:
        from autograder.cli import student
        from autograder.grading.judge_process import EngineError

        checks = self.lab.with_needs(chosen)
        try:
            record: ClassRecord = student.tried(
                self.lab, self.lab.folder, checks=checks, each_case=True
            )
        except EngineError as error:
            pytest.exit(str(error), returncode=2)
        (hand_in,) = record.hand_ins
        self._results = {one.check: one for one in hand_in.results}
        self._by_case = {(one.check, one.case): one for one in hand_in.cases}
        # Waits for a check that fails in this very run: one failure, not two.
        self.blamed = any(self._fails(name) for name in chosen)

    def _fails(self, check: str) -> bool:
        return self._results[check].outcome not in ("passed", "skipped", "not_graded")


_RUNS = pytest.StashKey[dict[Path, _LabRun]]()


class CheckItem(pytest.Item):
    """One check on one case."""

    def __init__(self, *, run: _LabRun, check: str, case: str, line: int, **more: Any) -> None:
        super().__init__(**more)
        self.run, self.check, self.case, self._line = run, check, case, line
        self.extra_keyword_matches.update(run.exercises[check])  # -k softmax

    def runtest(self) -> None:
        """Fail or skip as the check did."""
        from autograder.course.records import Outcome

        result = self.run.result(self)
        if result.outcome is Outcome.PASSED:
            return
        optional = next(one.optional for one in self.run.lab.checks if one.name == self.check)
        waits = result.outcome is Outcome.SKIPPED and self.run.blamed
        if waits or (result.outcome is Outcome.NOT_GRADED and optional):
            pytest.skip(_rendered(result)[0])
        raise CheckNotPassed(result)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Our sentence, and lines of the student's files."""
        if not isinstance(excinfo.value, CheckNotPassed):
            return super().repr_failure(excinfo, style)
        from autograder.report.scoreboard import symptom

        result = excinfo.value.result
        sentence, language = _rendered(result)
        check = next(one for one in self.run.lab.checks if one.name == self.check)
        frames = [frame for frame in result.frames if frame.file.endswith(self.run.lab.files)]
        last = frames[-1] if frames else None
        place = (last.file, last.line) if last else (str(self.path), self._line + 1)
        return _Sentence(symptom(check, result, language), sentence, *place)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Where an editor shows it, and its name."""
        return self.path, self._line, self.name


def _rendered(result: CheckResult) -> tuple[str, str]:
    """The sentence of a result, and the language that it is in."""
    from autograder.course import messages
    from autograder.course.records import Message
    from autograder.report.terminal import readable

    language = readable(messages.language())
    message = result.message or Message(f"outcome.{result.outcome.value}")
    return messages.render(message, language), language


def _run_of(collector: pytest.Collector) -> _LabRun | None:
    """The lab whose checks a module holds; None for any other module."""
    folder = collector.path.parent.parent
    if collector.path.parent.name != "checks" or not (folder / "lab.toml").is_file():
        return None
    if collector.config.pluginmanager.has_plugin(_GRADER):
        return None
    if collector.config.getoption("lab_folder", None):
        return None
    runs = collector.config.stash.setdefault(_RUNS, {})
    if folder not in runs:
        runs[folder] = _LabRun(folder)
    return runs[folder]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: Any
) -> list[CheckItem] | None:
    """An item per case of a function that is a check of its lab."""
    if not name.startswith("test_") or not callable(obj):
        return None
    run = _run_of(collector)
    if run is None:
        return None
    if name not in run.order:
        return []
    recipes: Iterable[str] = next(
        (mark.args for mark in getattr(obj, "pytestmark", ()) if mark.name == "cases"), ()
    )
    line = obj.__code__.co_firstlineno - 1
    items = []
    for case in (case for recipe in recipes for case in run.cases.get(recipe, ())):
        full = f"{name}[{_shown(case)}]"
        # In full, so that what is remembered of the last run (--lf) is found again.
        named = {"name": full, "nodeid": f"{collector.nodeid}::{full}"}
        made = CheckItem.from_parent(collector, **named, run=run, check=name, case=case, line=line)
        items.append(made)
    return items


def _shown(case: str) -> str:
    """The name of a case: all are public here, and most recipes have one."""
    return case.replace("-public-", "-").removesuffix("-0")


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of checks, also where marks are strict."""
    config.addinivalue_line("markers", "cases(*recipes): the recipes whose cases a check runs on")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The checks in the order of their lab."""
    places = [place for place, item in enumerate(items) if isinstance(item, CheckItem)]
    ours = [items[place] for place in places]

    def order(item: pytest.Item) -> tuple[str, int]:
        assert isinstance(item, CheckItem)
        return item.run.lab.name, item.run.order[item.check]

    for place, item in zip(places, sorted(ours, key=order), strict=True):
        items[place] = item

"""The pytest plugin: turns recipes into parameters, and gives checks their ``student``.

``python -m pytest labs/<lab>/checks -p autograder.checks.plugin --hand-in FOLDER`` runs the
checks in process on the files of a folder: for breakpoints, and as the yardstick of
benchmarks. Grading collects with this plugin too, and calls the functions itself.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator
from pathlib import Path
from pdb import Pdb
from typing import TYPE_CHECKING

import pytest

from autograder.checks.expect import CheckFailed
from autograder.course import labfile
from autograder.course.messages import both, render
from autograder.course.records import Check, Lab, Message
from autograder.reference import cases as case_files
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Sources
from autograder.worker.loader import read_sources

if TYPE_CHECKING:
    from autograder.sandbox.local import LocalTransport

_LAB = pytest.StashKey[Lab]()
_LOCAL = pytest.StashKey["LocalTransport"]()
_CASES = pytest.StashKey[dict[str, list[Case]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options, beside pytest's own."""
    group = parser.getgroup("autograder")
    group.addoption("--lab-folder", help="folder of the lab whose checks run")
    group.addoption("--hand-in", help="folder that holds the files to check (default: the lab)")
    group.addoption("--hidden-cases", help="file of hidden cases, beside the lab's public ones")
    group.addoption("--real-cases", help="file of cases on real weights")
    group.addoption("--real-weights", help="folder of the real weights that those cases name")
    group.addoption("--given-files", help="folder with what the lab lets hand-ins read")
    group.addoption("--fingerprints", help="bank of what known mistakes answer")
    group.addoption("--pair-fingerprints", help="bank of what two of them together answer")
    group.addoption("--language", choices=("en", "zh"), help="of our sentences (default: both)")
    group.addoption("--only", help="names of the checks to run, separated by commas")
    group.addoption("--breakpoints", action="store_true", help="let student exceptions through")


def pytest_configure(config: pytest.Config) -> None:
    """Read the lab and its cases once."""
    config.addinivalue_line("markers", "cases(*recipes): the recipes whose cases a check runs on")
    config.addinivalue_line("markers", "behaviour(mistake, exercise): what an experiment shows")
    config.addinivalue_line("markers", "confirms(*checks): whose counts are asked about again")
    folder = config.getoption("--lab-folder")
    if not folder:
        return
    lab = labfile.load(Path(folder))
    config.stash[_LAB] = lab
    by_recipe: dict[str, list[Case]] = {}
    files = [str(lab.folder / "cases.safetensors")]
    files += [config.getoption(name) for name in ("--hidden-cases", "--real-cases")]
    for file in filter(None, files):
        for case in case_files.load(Path(file)):
            by_recipe.setdefault(case.recipe, []).append(case)
    config.stash[_CASES] = by_recipe


def lab_of(config: pytest.Config) -> Lab:
    """The lab of this session."""
    return config.stash[_LAB]


def case_of(item: pytest.Item) -> Case | None:
    """The case of a collected item; None for the one that stands for "no cases"."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec else None
    return case if isinstance(case, Case) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item per case of the recipes that a check is marked with."""
    mark = metafunc.definition.get_closest_marker("cases")
    if mark is None or _CASES not in metafunc.config.stash:
        return
    found = [case for name in mark.args for case in metafunc.config.stash[_CASES].get(name, ())]
    metafunc.parametrize("case", found, ids=[case.name for case in found])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what the lab lists, in its order; a case that is absent leaves no item."""
    if _LAB not in config.stash:
        return
    only = config.getoption("--only")
    wanted = only.split(",") if only else [check.name for check in lab_of(config).checks]
    order = {name: number for number, name in enumerate(wanted)}
    kept = [i for i in items if case_of(i) is not None and _name(i) in order]
    asked = [i for i in items if confirmed(i) or behaviour_of(i)]
    others = [i for i in asked if case_of(i) is not None]
    others = [] if only else others
    items[:] = [*sorted(kept, key=lambda item: order[_name(item)]), *others]


def behaviour_of(item: pytest.Item) -> tuple[str, str] | None:
    """The mistake that an experiment shows, and its exercise; None for a check."""
    mark = item.get_closest_marker("behaviour")
    return (str(mark.args[0]), str(mark.args[1])) if mark else None


def confirmed(item: pytest.Item) -> tuple[str, ...]:
    """The checks whose counts a confirmation is for; none for a check."""
    mark = item.get_closest_marker("confirms")
    return tuple(map(str, mark.args)) if mark else ()


def _name(item: pytest.Item) -> str:
    return getattr(item, "originalname", item.name)


def check_of(item: pytest.Item) -> Check:
    """The check of a collected item."""
    return next(c for c in lab_of(item.config).checks if c.name == _name(item))


@pytest.fixture(scope="session")
def _transport(request: pytest.FixtureRequest) -> Iterator[object]:
    from autograder.sandbox.local import LocalTransport

    lab = lab_of(request.config)
    folder = Path(request.config.getoption("--hand-in") or lab.folder)
    files, paths = read_sources(folder, lab.files)
    debug = request.config.getoption("--breakpoints")
    transport = LocalTransport(Sources(files, paths, lab=lab.name), debug=debug)
    request.config.stash[_LOCAL] = transport
    yield transport
    transport.close()


@pytest.fixture
def student(_transport: object) -> Iterator[Student]:
    """The hand-in, in this very process; grading passes a jailed one instead."""
    made = Student(_transport)  # type: ignore[arg-type]
    yield made
    made.flush()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show one sentence instead of our own frames."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    error = call.excinfo.value if call.excinfo else None
    local: LocalTransport | None = item.config.stash.get(_LOCAL, None)
    language = item.config.getoption("--language")
    if isinstance(error, CheckFailed):
        report.longrepr = render(error.message, language) if language else both(error.message)
    elif isinstance(error, StudentError):
        where = "".join(f"\n  {f.file}:{f.line} in {f.function}: {f.text}" for f in error.frames)
        report.longrepr = f"{error}{where}"
    if error is None or local is None or not item.config.getoption("--breakpoints"):
        return
    raised = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if local.is_own(frame)]
    if raised:
        file, number = raised[-1].f_code.co_filename, raised[-1].f_lineno
        text = linecache.getline(file, number).strip()
        report.longrepr = f"{file}:{number}: {text}\n{type(error).__name__}: {error}"
    unwritten = isinstance(error, NotImplementedError) and "TODO" in str(error)
    frame = raised[-1] if raised else local.last
    if item.config.getoption("capture") != "no":
        return  # nobody could type
    if frame is not None and not unwritten and (raised or isinstance(error, CheckFailed)):
        key = "debug_raised" if raised else "debug_returned"
        said = Message(f"board.{key}", {"text": str(report.longrepr)})
        print("\n" + (render(said, language) if language else both(said)), flush=True)
        debugger = Pdb()
        debugger.reset()
        debugger.interaction(frame, None)

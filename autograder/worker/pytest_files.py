"""Runs a test of a pytest file in a worker, beside the code that it tests.

That is how labs of ``adopt`` check. The test and its answers lie where student code can read and
change them, so such a check is as fair as the file is and as safe as a student is honest; what
the jail keeps from student code it keeps from here.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

MAX_TEXT = 400
# Nothing of the folder or the environment takes part but the file and its conftest.
_WITHOUT = (
    "cacheprovider",
    "terminal",
    "logging",
    "faulthandler",
    "threadexception",
    "unraisableexception",
)
_QUIET = ("-x", "--capture=no", "--import-mode=importlib", "-c", os.devnull)
_WARM = """
import pytest
import torch

@pytest.fixture
def two():
    return 2

@pytest.mark.parametrize("number", [1, 2])
def test_it(number, two, monkeypatch, capsys):
    with pytest.raises(ValueError, match="as"):
        raise ValueError("as said")
    torch.testing.assert_close(torch.ones(2), torch.ones(2))
    assert number + two == pytest.approx(3)
"""


class _Watch:
    """A plugin: how many items passed, the first error, and why one was skipped."""

    def __init__(self) -> None:
        self.passed = 0
        self.skipped = ""
        self.item = ""
        self.error: BaseException | None = None

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        if self.error is None:
            error = call.excinfo.value
            if isinstance(error, pytest.Collector.CollectError) and error.__cause__ is not None:
                error = error.__cause__  # what the file raised while it was imported
            self.error, self.item = error, getattr(node, "name", "")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if hasattr(report, "wasxfail") or (report.when == "call" and report.passed):
            self.passed += 1
        elif report.skipped:
            self.skipped = str(report.longrepr[2])


def run(folder: str, test: str) -> list[str]:
    """Run ``file.py::test``, all its parameters.

    Returns:
        How it ended, one of ``passed``, ``failed``, ``skipped`` and ``absent``, and what it said.

    Raises:
        Exception: what is no failed assertion is the student's, and comes through.
    """
    watch = _Watch()
    before = os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        quiet = [*_QUIET, *(f"-pno:{name}" for name in _WITHOUT), "--rootdir", folder]
        quiet += ["--confcutdir", folder]
        with torch.enable_grad(), mock.patch.object(os, "chdir", _change_folder):
            pytest.main([*quiet, str(Path(folder, test))], plugins=[watch])
    finally:
        for name, module in [*sys.modules.items()]:  # the next run has the student's files anew
            if (getattr(module, "__file__", None) or "").startswith(os.path.join(folder, "")):
                del sys.modules[name]
        if before is None:
            del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    if watch.error is None:
        if watch.skipped:
            return ["skipped", watch.skipped[:MAX_TEXT]]
        return ["passed" if watch.passed else "absent", ""]
    if not isinstance(watch.error, (AssertionError, pytest.fail.Exception)):
        raise watch.error
    return ["failed", _text(watch)[:MAX_TEXT]]


_chdir = os.chdir


def _change_folder(path: Any) -> None:
    """``os.chdir``; a jail forbids it, and in the end pytest goes back to where it is."""
    if Path(path) != Path.cwd():
        _chdir(path)


def _text(watch: _Watch) -> str:
    """The words of an assertion, or its line; with the parameters of the item."""
    assert watch.error is not None
    said = str(watch.error).strip()
    if not said:
        last = traceback.extract_tb(watch.error.__traceback__)[-1:]
        said = next((frame.line for frame in last if frame.line), type(watch.error).__name__)
    _, bracket, parameters = watch.item.partition("[")
    return " ".join(f"{bracket}{parameters} {said}".split())


def _warm_up() -> None:
    """Import what pytest imports late: a worker may read no file of it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_warm.py").write_text(_WARM)
        run(folder, "test_warm.py::test_it")


_warm_up()

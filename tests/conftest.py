"""Lists skips at the end; only reasons in allowed_skips.txt are let through."""

from __future__ import annotations

from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this machine could not run."""
    # Not collected on the way: the tests may run in other processes.
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    if skipped:
        reasons = sorted({str(reason).removeprefix("Skipped: ") for reason in skipped})
        terminalreporter.write_line(f"not run: {len(skipped)} ({'; '.join(reasons)})")

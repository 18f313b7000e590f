"""Keeps pytest-timeout's clock over a judge: one that is stuck ends, and only its hand-in waits."""

from __future__ import annotations

import sys
import time

import pytest
import pytest_timeout
from _pytest._io import TerminalWriter


class Terminal:
    """Stands in for pytest's terminal reporter, which a judge runs without.

    pytest-timeout asks for its writer before it ends the process, and fails without one.
    """

    def __init__(self) -> None:
        self._tw = TerminalWriter(sys.stderr)

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Take the reporter's place among the plugins."""
        config.pluginmanager.register(cls(), "terminalreporter")


class Guard:
    """A clock that is running while a hand-in is judged.

    Starting it costs a thread, so one that has most of its time left runs on. It ends the
    whole (forked) judge: nothing is ever raised inside its state.
    """

    def __init__(self, item: pytest.Item, seconds: float) -> None:
        self._item = item
        self._settings = pytest_timeout.Settings(seconds, "thread", False, True)
        self._armed_at: float | None = None

    def arm(self) -> None:
        """See to it that at least three quarters of the time are left."""
        now = time.monotonic()
        if self._armed_at is not None and now - self._armed_at < self._settings.timeout / 4:
            return
        self.disarm()
        self._armed_at = now
        self._item.ihook.pytest_timeout_set_timer(item=self._item, settings=self._settings)

    def disarm(self) -> None:
        """Stop the clock."""
        if self._armed_at is not None:
            self._armed_at = None
            self._item.ihook.pytest_timeout_cancel_timer(item=self._item)

"""The judge: numpy and pytest, the checks collected once, forked for every hand-in.

It speaks JSON lines over its standard streams. In: ``{"hand_in": id, "files": …, "paths": …,
"problems": …}``. Out: ``{"ready": …}``, then per hand-in ``{"hand_in": id, "record": …}`` or
``{"hand_in": id, "lost": why}``. It never imports torch or student code.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout

from autograder.course.labfile import ROOT
from autograder.course.plain import message_from_plain, message_to_plain, result_to_plain
from autograder.course.records import Lab
from autograder.harness import marks, plugin
from autograder.harness.runner import Plan, Runner, Trial
from autograder.sandbox.jail import harden_parent
from autograder.sandbox.link import ForkedLink, Starter, ZygoteLost, ended
from autograder.sandbox.spawned import SpawnedLink
from autograder.sandbox.transport import Sources, WorkerNotStarted, WorkerTransport

STUCK_FACTOR = 3  # pytest-timeout ends a judge at this multiple of the worker's own deadline


class Judge:
    """A pytest plugin whose run loop serves hand-ins instead of running items once."""

    def __init__(self, control: int | None, memory_bytes: int) -> None:
        # A private copy: what anything prints to stdout must not mix with our messages.
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._control = socket.socket(fileno=control) if control is not None else None
        self._memory_bytes = memory_bytes
        self._children: dict[int, tuple[int, str, bytearray]] = {}  # pipe -> pid, id, record

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Collect into a plan, then serve until standard input ends."""
        lab = plugin.lab_of(session.config)
        trials: dict[str, list[Trial]] = {check.name: [] for check in lab.checks}
        for item in session.items:
            case = plugin.case_of(item)
            if case is not None and isinstance(item, pytest.Function):
                guard = partial(_guard, item, STUCK_FACTOR * lab.limits.wall_seconds)
                name = item.originalname
                trials[name].append(Trial(name, case, item.obj, guard))
        gc.collect()
        gc.freeze()  # forked judges share these pages; collecting would copy them
        plan = Plan(lab, {name: tuple(found) for name, found in trials.items()})
        cases = {t.case.name: t.case.hidden for found in plan.trials.values() for t in found}
        counts = {"hidden": sum(cases.values()), "public": len(cases) - sum(cases.values())}
        try:
            layers = self._probe(lab)
        except (WorkerNotStarted, ZygoteLost) as error:
            self._say({"error": str(error)})
            return True
        self._say({"ready": counts, "layers": layers})
        self._serve(plan)
        return True

    def _probe(self, lab: Lab) -> list[str]:
        """The isolation layers that bind around a worker, learned from one without sources."""
        probe = WorkerTransport(self._starter(), Sources({}), lab.limits)
        try:
            probe.exchange({"steps": []}, {})
            return list(probe.layers)
        finally:
            probe.renew()

    def _serve(self, plan: Plan) -> None:
        poll = select.poll() if hasattr(select, "poll") and hasattr(os, "fork") else None
        if poll is None or self._control is None:
            for line in sys.stdin:
                request = json.loads(line)
                record = self._judge(plan, request)
                self._say({"hand_in": request["hand_in"], "record": record})
            return
        poll.register(0, select.POLLIN)
        pending, reading = b"", True
        while reading or self._children:
            for fd, _ in poll.poll():
                if fd != 0:
                    if self._collect(fd):
                        poll.unregister(fd)
                        os.close(fd)
                    continue
                data = os.read(0, 1 << 20)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    poll.register(self._fork(plan, json.loads(line)), select.POLLIN)
                if not data:
                    reading = False
                    poll.unregister(0)

    def _fork(self, plan: Plan, request: dict[str, Any]) -> int:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(reading)
                record = json.dumps(self._judge(plan, request)).encode()
                view = memoryview(record)
                while view:
                    view = view[os.write(writing, view) :]
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        self._children[reading] = (pid, request["hand_in"], bytearray())
        return reading

    def _collect(self, fd: int) -> bool:
        """Take what a forked judge has written; True when it has ended."""
        pid, hand_in, record = self._children[fd]
        data = os.read(fd, 1 << 20)
        record += data
        if data:
            return False
        _, status = os.waitpid(pid, 0)
        del self._children[fd]
        if status == 0:
            self._say({"hand_in": hand_in, "record": json.loads(bytes(record))})
        else:
            self._say({"hand_in": hand_in, "lost": ended(status)})
        return True

    def _judge(self, plan: Plan, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run all checks on one hand-in."""
        lab = plan.lab
        sources = Sources(request["files"], request["paths"], lab.given)
        transport = WorkerTransport(self._starter(), sources, lab.limits)
        problems = {}
        for name, raw in request["problems"].items():
            message = message_from_plain(raw)
            if message is not None:
                problems[name] = message
        runner = Runner(plan.shuffled(request["order"]), transport)
        try:
            results = runner.run(problems, set(request["checks"]))
        finally:
            transport.renew()
        found = marks.forbidden(lab, request["files"], runner.operators)
        return {
            "results": [result_to_plain(result) for result in results],
            "marks": [message_to_plain(mark) for mark in found],
            "layers": list(transport.layers),
            "lost": transport.lost,
        }

    def _starter(self) -> Starter:
        if self._control is not None:
            return partial(ForkedLink, self._control)
        return partial(SpawnedLink, ROOT, self._memory_bytes)

    def _say(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


_armed = 0.0  # when pytest-timeout's clock was last started in this process


def _guard(item: pytest.Item, seconds: float) -> None:
    """Keep pytest-timeout's clock running: it ends this process if a check of ours is stuck.

    Every start costs a thread, so a clock that has most of its time left runs on.
    """
    global _armed
    now = time.monotonic()
    if now - _armed < seconds / 4:
        return
    _armed = now
    item.ihook.pytest_timeout_cancel_timer(item=item)
    settings = pytest_timeout.Settings(seconds, "thread", False, True)
    item.ihook.pytest_timeout_set_timer(item=item, settings=settings)


def main(argv: list[str]) -> int:
    """``python -m autograder.harness.judge LAB_FOLDER CONTROL_FD|- MEMORY_BYTES [OPTION…]``."""
    folder, control, memory = Path(argv[1]), argv[2], int(argv[3])
    harden_parent()
    judge = Judge(None if control == "-" else int(control), memory)
    arguments = [str(folder / "checks"), "--lab-folder", str(folder), *argv[4:]]
    quiet = ["--assert=plain", "--capture=no", "-p", "no:cacheprovider", "-p", "no:terminal"]
    isolated = ["-c", os.devnull, "--rootdir", str(folder), "--import-mode=importlib"]
    plugins = [plugin, judge]
    return int(pytest.main([*quiet, *isolated, *arguments], plugins=plugins))


if __name__ == "__main__":
    sys.exit(main(sys.argv))

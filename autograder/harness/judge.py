"""The judge: numpy and pytest, the checks collected once, forked for hand-ins side by side.

It speaks JSON lines over its standard streams. In: ``{"hand_in": id, "files": …, "paths": …,
"problems": …, "order": seed, "checks": names, "replay": bool, "keep": path or null, "kept": path
or null}``. Out: ``{"ready": …}``, then per hand-in ``{"hand_in": id, "record": …}``,
``{"hand_in": id, "lost": why}`` when the forked judge that had it ended,
``{"hand_in": id, "unwritten": [errno, why]}`` when its outputs could not be kept, or
``{"hand_in": id, "no_worker": why}`` when no worker is to be had any more, so that judge and
zygote have to be started anew. It never imports torch or student code.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autograder.course.labfile import ROOT
from autograder.course.records import Lab
from autograder.harness import plugin
from autograder.harness.collected import arguments, plan_of
from autograder.harness.diagnose import Known, known
from autograder.harness.guard import Guard, Terminal
from autograder.harness.one import judged
from autograder.harness.plan import Plan
from autograder.harness.slots import Slot
from autograder.sandbox.forked import ForkedLink
from autograder.sandbox.jail import harden_parent
from autograder.sandbox.link import NoWorker, Starter, WorkerLost
from autograder.sandbox.spawned import SpawnedLink
from autograder.sandbox.transport import Sources, WorkerTransport

# pytest-timeout ends a judge at this multiple of what a hand-in may take in all. Three quarters of
# it are left when a check begins (see Guard), so no waiting of student code gets there.
STUCK_FACTOR = 2


class Judge:
    """A pytest plugin whose run loop serves hand-ins instead of running items once."""

    def __init__(self, control: int | None, memory_bytes: int, *, spawns: bool) -> None:
        # A private copy: what anything prints to stdout must not mix with our messages.
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._control = socket.socket(fileno=control) if control is not None else None
        self._memory_bytes = memory_bytes
        self._spawns = spawns  # otherwise, and without a zygote, it only asks what was kept
        self._guards: list[Guard] = []
        self._known: Known | None = None
        self._files = ""  # what hand-ins may read, for a spawned worker
        self._mapping: tuple[str, ...] = ()  # real weights that a spawned worker has to read

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Collect into a plan, then serve until standard input ends."""
        Terminal.register(session.config)
        lab = plugin.lab_of(session.config)

        def guard(item: pytest.Function) -> Callable[[], None]:
            if not self._guards:
                longest = lab.limits.hand_in_seconds + lab.limits.wall_seconds
                self._guards.append(Guard(item, STUCK_FACTOR * longest))
            return self._guards[0].arm

        option = session.config.getoption
        self._files = option("--given-files") or ""
        self._known = known(option("--fingerprints"), option("--pair-fingerprints"))
        plan = plan_of(session, guard)
        gc.collect()
        gc.freeze()  # forked judges share these pages; collecting would copy them
        cases = {t.case.name: t.case.hidden for found in plan.trials.values() for t in found}
        weights = option("--real-weights")
        if weights:
            named = (t.case.values.get("mapped") for found in plan.trials.values() for t in found)
            self._mapping = (weights, *sorted({prefix for prefix in named if prefix}))
        counts = {"hidden": sum(cases.values()), "public": len(cases) - sum(cases.values())}
        try:
            layers = self._probe(lab)
        except (NoWorker, WorkerLost) as error:
            self._say({"no_worker": str(error)})
            return True
        self._say({"ready": counts, "layers": layers})
        self._serve(plan)
        return True

    def _probe(self, lab: Lab) -> list[str]:
        """The isolation layers that bind around a worker, learned from one without sources."""
        if self._control is None and not self._spawns:
            return []
        probe = WorkerTransport(self._starter(), Sources({}), lab.limits)
        try:
            probe.exchange({"steps": []}, {})
            return list(probe.layers)
        finally:
            probe.renew()

    def _serve(self, plan: Plan) -> None:
        work = partial(self._judge, plan)
        if self._control is None or not hasattr(os, "fork"):
            for line in sys.stdin:
                request = json.loads(line)
                self._say({"hand_in": request["hand_in"], **work(request)})
            return
        poll = select.poll()
        poll.register(0, select.POLLIN)
        slots: dict[int, Slot] = {}
        pending = b""
        while True:
            for fd, _ in poll.poll():
                if fd == 0:
                    data = os.read(0, 1 << 20)
                    *lines, pending = (pending + data).split(b"\n")
                    for line in lines:
                        slot = next((s for s in slots.values() if s.hand_in is None), None)
                        if slot is None:
                            slot = Slot(work, list(slots.values()), (0, self._out.fileno()))
                            slots[slot.socket.fileno()] = slot
                            poll.register(slot.socket, select.POLLIN)
                        slot.give(json.loads(line))
                    if not data:  # nobody waits for what is still being judged
                        for slot in slots.values():
                            slot.kill()
                        return
                elif fd in slots:
                    slot = slots[fd]
                    answer = slot.take()
                    if answer is None:
                        continue
                    if "lost" in answer or slot.worn_out:
                        del slots[fd]
                        poll.unregister(fd)
                    if "lost" not in answer and slot.worn_out:
                        slot.close()
                    if answer["hand_in"] is not None:  # an idle judge costs nobody anything
                        self._say(answer)

    def _judge(self, plan: Plan, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return judged(plan, request, self._starter(), self._known)
        finally:
            for guard in self._guards:
                guard.disarm()

    def _starter(self) -> Starter:
        if self._control is not None:
            return partial(ForkedLink, self._control)
        return partial(SpawnedLink, ROOT, self._memory_bytes, self._files, self._mapping)

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()
        except BrokenPipeError:  # nobody listens any more; our forks end with us
            os._exit(0)


def main(argv: list[str]) -> int:
    """``python -m autograder.harness.judge LAB_FOLDER CONTROL MEMORY_BYTES [OPTION…]``.

    ``CONTROL``: a descriptor to ask the zygote by, ``spawn`` to spawn workers, or ``none``.
    """
    folder, control, memory = Path(argv[1]), argv[2], int(argv[3])
    harden_parent()
    fd = int(control) if control.isdigit() else None
    judge = Judge(fd, memory, spawns=control == "spawn")
    timed = ["-p", "pytest_timeout", *arguments(folder, argv[4:])]
    return int(pytest.main(timed, plugins=[plugin, judge]))


if __name__ == "__main__":
    sys.exit(main(sys.argv))

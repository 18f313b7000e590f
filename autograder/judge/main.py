"""The judge: numpy and pytest, the checks collected once, forked for hand-ins side by side.

It speaks JSON lines over its standard streams. In: ``{"hand_in": id, "files": …, "paths": …,
"problems": …, "order": seed, "checks": names, "replay": bool, "keep": path or null, "kept": path
or null, "shares": bool}``. Out: ``{"ready": …}``, then per hand-in
``{"hand_in": id, "record": …}``, ``{"hand_in": id, "lost": why}`` when the forked judge that had it
ended,
``{"hand_in": id, "unwritten": [errno, why]}`` when its outputs could not be kept, or
``{"hand_in": id, "no_worker": why}`` when no worker is to be had any more, so that judge and
zygote have to be started anew. It never imports torch or student code.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout
from _pytest._io import TerminalWriter

from autograder.checks import plugin
from autograder.checks.plan import Plan, arguments, plan_of
from autograder.course.labfile import ROOT
from autograder.course.records import Lab
from autograder.judge.diagnose import KnownMistakes, known
from autograder.judge.hand_in import grade_hand_in
from autograder.sandbox.links import NoWorker, Starter, WorkerLost, ended
from autograder.sandbox.transport import Sources, WorkerTransport
from autograder.sandbox.workers import ForkedLink, SpawnedLink
from autograder.worker import jail
from autograder.worker.jail import die_with_parent, harden_parent

# Keeps pytest-timeout's clock over a judge: one that is stuck ends, and only its hand-in waits.


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


# Forked judges: as many as hand-ins are graded at a time, each kept for many hand-ins.
#
# A judge never runs student code, so what it has warmed up may stay; a fork costs more than
# judging. One that is lost (stuck, killed) loses the hand-in it works on and nothing else.

MEMORY_BYTES = 3 << 30  # beyond what it is forked with; a message takes 64 MiB
HAND_INS_PER_JUDGE = 100  # then a new one is forked: nothing of ours can grow without end

Work = Callable[[Mapping[str, Any]], dict[str, Any]]


class JudgeFork:
    """One forked judge and the hand-in it works on (None while it is idle)."""

    def __init__(self, work: Work, others: list[JudgeFork], streams: Sequence[int]) -> None:
        """Fork a judge that runs ``work``; of its parent's ``streams`` it keeps none.

        Whoever hears them must see their end when the parent ends, whatever its children do.
        """
        self.socket, theirs = socket.socketpair()
        self._answer = bytearray()
        self._left = HAND_INS_PER_JUDGE
        self.hand_in: str | None = None
        self._pid = os.fork()
        if not self._pid:
            code = 1
            try:
                die_with_parent()
                jail.cap_memory(MEMORY_BYTES)
                for stream in streams:
                    os.close(stream)
                for sock in (self.socket, *(other.socket for other in others)):
                    sock.close()
                _serve(theirs, work)
                code = 0
            finally:
                os._exit(code)
        theirs.close()

    @property
    def worn_out(self) -> bool:
        """Return whether it has judged its share and should be let go."""
        return self._left <= 0

    def give(self, request: Mapping[str, Any]) -> None:
        """Hand it a request; the answer arrives at ``socket``."""
        self.hand_in = request["hand_in"]
        self._left -= 1
        with contextlib.suppress(OSError):  # it is gone; reading the answer tells
            self.socket.sendall(json.dumps(request).encode() + b"\n")

    def take(self) -> dict[str, Any] | None:
        """Return what has come: a whole answer, ``{"lost": why}`` when it ended, or None so far."""
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            return {"hand_in": self.hand_in, "lost": self.close()}
        self._answer += data
        if not self._answer.endswith(b"\n"):
            return None
        answer = json.loads(bytes(self._answer))
        self._answer.clear()
        hand_in, self.hand_in = self.hand_in, None
        return {"hand_in": hand_in, **answer}

    def kill(self) -> None:
        """End it whatever it does."""
        os.kill(self._pid, signal.SIGKILL)
        self.close()

    def close(self) -> str:
        """Let it go (it ends when its socket closes); how it ended, in words."""
        self.socket.close()
        _, status = os.waitpid(self._pid, 0)
        return ended(status)


def _serve(requests: socket.socket, work: Work) -> None:
    """Judge what comes, one hand-in after the other, until the other side closes."""
    with requests, requests.makefile("rb") as lines:
        for line in lines:
            requests.sendall(json.dumps(work(json.loads(line))).encode() + b"\n")


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
        self._known: KnownMistakes | None = None
        self._files = ""  # what hand-ins may read, for a spawned worker
        self._given: tuple[str, ...] = ()  # modules that it imports
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
        self._given = lab.preloaded
        self._known = known(option("--fingerprints"), option("--pair-fingerprints"))
        plan = plan_of(session, guard)
        gc.collect()
        gc.freeze()  # forked judges share these pages; collecting would copy them
        cases = {t.case.name: t.case.hidden for found in plan.check_cases.values() for t in found}
        weights = option("--real-weights")
        if weights:
            named = (
                t.case.values.get("mapped") for found in plan.check_cases.values() for t in found
            )
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
        slots: dict[int, JudgeFork] = {}
        pending = b""
        while True:
            for fd, _ in poll.poll():
                if fd == 0:
                    data = os.read(0, 1 << 20)
                    *lines, pending = (pending + data).split(b"\n")
                    for line in lines:
                        slot = next((s for s in slots.values() if s.hand_in is None), None)
                        if slot is None:
                            slot = JudgeFork(work, list(slots.values()), (0, self._out.fileno()))
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
            return grade_hand_in(plan, request, self._starter(), self._known)
        finally:
            for guard in self._guards:
                guard.disarm()

    def _starter(self) -> Starter:
        if self._control is not None:
            return partial(ForkedLink, self._control)
        return partial(
            SpawnedLink, ROOT, self._memory_bytes, self._given, self._files, self._mapping
        )

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()
        except BrokenPipeError:  # nobody listens any more; our forks end with us
            os._exit(0)


def main(argv: list[str]) -> int:
    """``python -m autograder.judge.main LAB_FOLDER CONTROL MEMORY_BYTES [OPTION…]``.

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

"""The in-process twin of a worker: for breakpoints, and as a yardstick. No isolation."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from types import FrameType
from typing import Any

from autograder.course.labfile import ROOT
from autograder.sandbox.links import Budget, Link, Starter, StudentError, WorkerLost
from autograder.sandbox.ranks import RankRaised, RankReplies, RankWorkers, Request
from autograder.sandbox.transport import START, Reply, Sources
from autograder.sandbox.workers import ForkedLink, SpawnedLink, clean_environment, command
from autograder.wire.messages import Tensor, pack
from autograder.worker import collective, loader
from autograder.worker.session import Session

# Workers for a process that is no judge: ranks beside the one that is debugged, or recorded.

MEMORY_BYTES = 2 << 30  # of each, beyond what it starts with


@cache
def starter() -> Starter:
    """Return how to get a worker here: from one zygote for this process, or by a spawn each."""
    # One serves all labs here: it runs what is ours, or what the student debugs.
    files, given = _copied_folders(), sorted(_listed("given"))
    if os.environ.get("AUTOGRADER_WORKER") == "spawn" or not sys.platform.startswith("linux"):
        return partial(SpawnedLink, ROOT, MEMORY_BYTES, given, files)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked = str(MEMORY_BYTES), str(theirs.fileno()), ",".join(given), "", files
    process = subprocess.Popen(
        command("autograder.worker.zygote", ROOT, *asked),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=clean_environment(),
        cwd=os.sep,
        pass_fds=(theirs.fileno(),),
        start_new_session=True,  # Ctrl-C ends what is debugged, and that ends this
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return partial(ForkedLink, ours)


def _listed(key: str) -> set[str]:
    """The names that all labs of the course have under ``key``."""
    listed: set[str] = set()
    for path in (ROOT / "labs").glob("*/lab.toml"):
        with suppress(OSError, ValueError):  # another lab may be in the making
            listed.update(tomllib.loads(path.read_text(encoding="utf-8")).get(key, ()))
    return listed


@cache
def _copied_folders() -> str:
    """Where those folders lie for workers here that any lab lets hand-ins read; empty: none."""
    made = loader.copied(sorted(name for name in _listed("folders") if (ROOT / name).is_dir()))
    if made is None:
        return ""
    atexit.register(made.cleanup)
    return made.name


PATIENCE = Budget(cpu_seconds=60, wall_seconds=600)
NO_END = Budget(cpu_seconds=1e6, wall_seconds=1e6)  # somebody may stand at a breakpoint


class _Over(BaseException):
    """Too long; what catches or swallows it meets it again a second later."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[list[bool]]:
    """End the block after so many CPU seconds of this process; what it yields is then not empty.

    No limit where ``seconds`` is 0, in another thread than the first, or without such a clock.
    The clock strikes every second from then on: the first stroke may be lost, in a ``__del__``
    or while garbage is collected, where Python only reports what is raised.
    """
    over: list[bool] = []
    here = threading.current_thread() is threading.main_thread()
    if not (seconds and here and hasattr(signal, "setitimer")):
        yield over
        return

    def end(number: int, frame: FrameType | None) -> None:
        over.append(True)
        raise _Over

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        with suppress(_Over):
            yield over
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # forgets a stroke on its way
        signal.signal(signal.SIGPROF, before)  # by default, it would end this process


class LocalTransport:
    """Executes requests here. Of several ranks the first runs here, the others in workers.

    Args:
        sources: text and shown paths of the hand-in's files.
        debug: let exceptions of student code through, so that ``pdb`` stops in them.
        seed: of torch's generator; another one shows which answers depend on it.
        seconds: of CPU for one request, where this system has such a clock; 0: no limit.
    """

    def __init__(
        self, sources: Sources, *, debug: bool = False, seed: int = 0, seconds: float = 0
    ) -> None:
        self._sources, self._seed, self._seconds = sources, seed, seconds
        self._session = Session(sources.files, sources.paths, seed=seed, lab=sources.lab)
        self._first: Session | None = None  # of rank 0, whose objects are its own
        self._debug = debug
        self.last: FrameType | None = None  # of student code; only with ``debug``
        self._gang = RankWorkers(self._begin, NO_END if debug else PATIENCE)
        self.lost = 0

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Execute one request in this process.

        Raises:
            WorkerLost: it takes longer than it may.
        """
        collective.stand_alone()
        with self._remembered(), cpu_limit(self._seconds) as over:
            reply = self._session.execute(request, tensors, debug=self._debug)
        if over:
            self.lost += 1
            raise WorkerLost(f"{self._seconds:g}", timed_out=True)
        return reply

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Execute a request per rank, the first of them in this process.

        Raises:
            RankLost, OutOfStep, NoWorker: see :class:`WorkerTransport`.
        """
        if self._first is None:
            own = self._sources
            self._first = Session(own.files, own.paths, seed=self._seed, lab=own.lab)
        world, failed = len(requests), list[Exception]()
        self._gang.fill(world - 1)
        hub = self._gang.exchange(requests[1:], world, first=1)

        def ask(call: str, about: str, data: bytes) -> list[bytes]:
            try:
                return hub.ask(0, call, about, data)
            except (WorkerLost, StudentError) as error:
                failed.append(error)
                raise

        collective.join(0, world, ask)
        met = None
        try:
            with self._remembered():
                reply = self._first.execute(*requests[0], debug=self._debug)
            if failed and not isinstance(failed[0], RankRaised):
                raise failed[0]
            if not failed:
                hub.replied(0, reply)
            met = hub.met() if failed else hub.end()
            return met
        finally:
            collective.join(0, 1)
            if met is None or None in met.replies:
                self._gang.close()

    def is_own(self, frame: FrameType) -> bool:
        """Return whether a frame runs a function of the student's."""
        code = frame.f_code
        return code.co_filename in self._sources.paths.values() and code.co_name != "<module>"

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """Keep the frame of the last call of student code, for somebody who debugs it."""

        def profiled(frame: FrameType, event: str, arg: object) -> None:
            if event == "return" and self.is_own(frame):
                self.last = frame  # calls that it made have returned before it

        before = sys.getprofile()
        if self._debug:
            sys.setprofile(profiled)
        try:
            yield
        finally:
            sys.setprofile(before)

    def take_prints(self) -> str:
        """Prints went where those of this process go."""
        return ""

    def forgive(self) -> None:
        """Nothing is ever lost here."""

    def renew(self) -> None:
        """There is no worker but those of ranks."""
        self._gang.close()

    def aside(self) -> AbstractContextManager[None]:
        """Nothing is counted here."""
        return nullcontext()

    def close(self) -> None:
        """Take the student's modules out of this process again."""
        self._gang.close()
        for session in (self._first, self._session):
            if session is not None:
                session.modules.remove()
        collective.leave()

    def _begin(self, link: Link | None = None) -> Link:
        link = link or starter()()
        own = self._sources
        told = {"sources": dict(own.files), "paths": dict(own.paths), "lab": own.lab}
        link.exchange(pack({**told, "given": None, "seed": self._seed}, {}), START)
        return link

"""Carries requests to student code: to a jailed worker, or to this very process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from autograder.course.records import Limits
from autograder.sandbox import stacks
from autograder.sandbox.links import Budget, Link, NoWorker, Starter, Usage, WorkerLost
from autograder.sandbox.prefetcher import ForeseenRequest, LostUnrequested, Prefetcher
from autograder.sandbox.ranks import RankReplies, RankWorkers, Request
from autograder.wire.frames import WireError
from autograder.wire.messages import Tensor, pack, unpack

Reply = tuple[dict[str, Any], dict[str, Tensor]]
# Until student text is compiled nothing of a student's runs: a slow disk is no fault of theirs.
START = Budget(cpu_seconds=60, wall_seconds=300)
ASIDE_SECONDS = 20.0  # on the wall, for what is asked to locate a fault; a right answer takes 0.1


class Transport(Protocol):
    """Executes requests somewhere."""

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Execute one request of :mod:`autograder.worker.session`."""


class CheckTransport(Transport, Protocol):
    """A transport for the checks of one hand-in: with prints, and workers that may be lost."""

    @property
    def lost(self) -> int:
        """Workers lost so far."""

    def take_prints(self) -> str:
        """Return what student code printed since the last call."""

    def forgive(self) -> None:
        """The last loss is nobody's fault."""

    def renew(self) -> None:
        """Let go of the worker; the next request gets a new one."""

    def aside(self) -> AbstractContextManager[None]:
        """Ask for ourselves inside: it costs no time and no worker of the hand-in."""


@dataclass(frozen=True)
class Sources:
    """The sources of a worker at its start: the hand-in's text, and what it may import.

    ``lab``: the lab's folder, through which its files may import each other, too.
    """

    files: Mapping[str, str]
    paths: Mapping[str, str] = field(default_factory=dict)
    given: Sequence[str] = ()
    lab: str = ""


class _Namespaces:
    """The namespaces of a worker, or of workers that are ranks, and what they were asked.

    Module code may be such that a process can run it once and no more: it sets a number of threads,
    or registers an operator. The first time that a worker says so, all that these namespaces were
    asked is asked again of a new one, and from then on fresh namespaces mean a new worker. So a
    hand-in is asked twice once at most, whatever it says, and how many workers it has is up to the
    checks.

    Args:
        run: executes requests, one per rank, where the namespaces are.
        end: lets go of the worker, or of all ranks.
    """

    def __init__(
        self, run: Callable[[Sequence[Request]], RankReplies], end: Callable[[], None]
    ) -> None:
        self._run, self._end = run, end
        self._asked: list[Sequence[Request]] = []  # since they were fresh
        self._always_new = False

    def ask(self, requests: Sequence[Request]) -> RankReplies:
        """Execute; raises what ``run`` raises."""
        asked, self._asked = [*self._asked, requests], []  # after a loss there are none
        if any(request.get("fresh") for request, _ in requests):
            asked = [requests]
            if self._always_new:
                self._end()
        found = self._run(requests)
        failed_again = any(reply is not None and reply[0].get("again") for reply in found.replies)
        if failed_again and not self._always_new:
            self._always_new = True
            self._end()
            for earlier in asked[:-1]:
                self._run(earlier)
            found = self._run(requests)
        self._asked = asked
        return found


class WorkerTransport:
    """Keeps one worker for a hand-in, and starts another when it is lost."""

    def __init__(self, start: Starter, sources: Sources, limits: Limits) -> None:
        self._start = start
        self._sources = sources
        self._budget = Budget(limits.cpu_seconds, limits.wall_seconds)
        self._most_seconds = self._seconds_left = limits.hand_in_seconds
        self._link: Link | None = None
        self._used: Link | None = None  # the one that was asked something
        self._sent: set[str] = set()  # names of tensors that the worker keeps
        self.ahead = Prefetcher(self._budget)
        self.gang = RankWorkers(self._begin, self._budget)  # workers that are ranks together
        self._alone = _Namespaces(self._run_alone, self._end_alone)
        self._ranks = _Namespaces(self._run_ranks, self.gang.close)
        self._last_prints = ""  # of a worker that is gone
        self._exact = False
        self.lost = 0
        self.raw = b""  # the last reply, as it came
        self.layers: tuple[str, ...] = ()

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Execute in the worker.

        Raises:
            WorkerLost: it died, ran out of time, or did not answer in our language.
            OutOfTurn: this was not foreseen; the check has to begin again.
            NoWorker: none could be started.
        """
        (reply,) = self._alone.ask([(request, tensors)]).replies
        assert reply is not None
        return reply

    def _run_alone(self, requests: Sequence[Request]) -> RankReplies:
        self._expect_time()
        link = self._used = self._link = self._link or self._begin()
        started = time.monotonic()
        try:
            question = ForeseenRequest(*requests[0])
            try:
                raw = self.ahead.reply(link, question, self._sent)
            except LostUnrequested:  # costs nobody anything
                self.ahead.stop()
                self.renew()
                link, raw = self._begin(), b""
                self._used = self._link = link
            self.raw = raw or link.exchange(question.packed(self._sent), self._budget)
            return RankReplies((unpack(self.raw),), ())
        except (WorkerLost, WireError) as error:
            self.lost += 1
            self.ahead.stop()
            self._last_prints = _prints(link)
            self.renew()
            if isinstance(error, WireError):
                raise WorkerLost(str(error)) from None
            error.frames = stacks.frames(error.stack, self._sources.files, self._sources.paths)
            raise
        finally:
            self._seconds_left -= time.monotonic() - started

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Execute in as many workers as there are requests, each a rank of its own.

        Raises:
            RankLost: one died, ran out of time, or did not answer in our language.
            OutOfStep: their collective calls do not fit together; all ranks are let go.
            NoWorker: one could not be started.
        """
        return self._ranks.ask(requests)

    def _run_ranks(self, requests: Sequence[Request]) -> RankReplies:
        self._expect_time()
        self.gang.fill(len(requests), self._start)
        started = time.monotonic()
        met = None
        try:
            hub = self.gang.exchange(requests)
            met = hub.end()
            self.gang.raw = tuple(hub.raw.get(rank, b"") for rank in range(len(requests)))
            return met
        except WorkerLost:
            self.lost += 1
            raise
        finally:
            if met is None or None in met.replies:
                self._last_prints += self.gang.prints()
                self.gang.close()
            self._seconds_left -= time.monotonic() - started

    def take_prints(self) -> str:
        """Return what student code printed since the last call."""
        last, self._last_prints = self._last_prints, ""
        if self._link and not self.ahead.begun:  # else what it prints is not of this check
            last += _prints(self._link)
        return last + self.gang.prints()

    def forgive(self) -> None:
        """The last loss is nobody's fault, and its prints are nobody's business."""
        self.lost -= 1
        self._last_prints = ""

    def usage(self) -> Usage | None:
        """Return what the worker has used so far; None where the system does not tell.

        Raises:
            NoWorker: none could be started.
        """
        self._link = self._link or self._begin()
        return self._link.usage()

    def renew(self) -> None:
        """Let go of the worker; the next request gets a new one."""
        self.gang.close()
        self._hang_up()

    def _end_alone(self) -> None:
        """Let go of a worker that was asked something, and of no rank; nothing is foreseen now."""
        self.ahead.stop()
        if self._used is self._link:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
            self._sent.clear()
            self.ahead.forget()

    @contextmanager
    def exact(self) -> Iterator[None]:
        """Workers of their own, whose memory at most is what they had alive at most."""
        self.renew()
        self._exact = True
        try:
            yield
        finally:
            self._exact = False
            self.renew()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See :class:`CheckTransport`; no longer than :data:`ASIDE_SECONDS` in all."""
        lost, left, budget = self.lost, self._seconds_left, self._budget
        half = ASIDE_SECONDS / 2  # the last call may begin when as much is over
        self._seconds_left = half
        self._budget = self.gang.budget = Budget(
            min(budget.cpu_seconds, half), min(budget.wall_seconds, half)
        )
        try:
            yield
        finally:
            self.lost, self._seconds_left = lost, left
            self._budget = self.gang.budget = budget
            self.take_prints()

    def _expect_time(self) -> None:
        if self._seconds_left <= 0:
            self.lost += 1
            raise WorkerLost(f"{self._most_seconds:g}", timed_out=True, clock="whole")

    def _begin(self, link: Link | None = None) -> Link:
        """A worker (the one that is given, unless it is lost) that knows the hand-in."""
        request = {
            "sources": dict(self._sources.files),
            "paths": dict(self._sources.paths),
            "given": list(self._sources.given),
            "lab": self._sources.lab,
            "exact": self._exact,
        }
        lost: WorkerLost | None = None
        said = ""
        while lost is None or lost.stray:  # somebody's kill; twice is no accident
            link = link or self._start()
            try:
                hello, _ = unpack(link.exchange(pack(request, {}), START))
            except WorkerLost as error:
                said = link.take_prints().strip()
                link.close()
                link = None
                if lost is not None:
                    break
                lost = error
            else:
                self.layers = tuple(str(layer) for layer in hello["layers"])
                return link
        raise NoWorker(f"a worker did not start ({lost}; {said})")


def _prints(link: Link) -> str:
    try:
        return link.take_prints()
    except WorkerLost:  # it printed too much; the next request will say so
        return ""

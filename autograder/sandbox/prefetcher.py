"""Asks ahead: a worker finds its next requests waiting, and nobody waits for it in between.

What a check asks does not depend on the hand-in, as a rule, so it is known from the hand-ins
before. A worker is sent several requests at a time and answers them in order; the check that
then asks one of them finds its reply there. What several checks ask alike is put once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from autograder.sandbox.links import Budget, Link, WorkerLost
from autograder.wire.messages import KEPT, Tensor, pack

MOST_REMEMBERED = 1 << 20  # bytes of a reply that is kept for who asks the same
MOST_PACKED = 4  # forms of a request: which tensors a worker has depends on what it was asked


class OutOfTurn(Exception):
    """A check asks what nobody foresaw, after its worker has begun with the next one.

    Also where it is not clear who has printed something. Asked again from its beginning the
    check gets its answers: nothing is foreseen any more.
    """


class LostUnrequested(Exception):
    """The worker was lost to a request that nobody has made."""


class ForeseenRequest:
    """A request with its tensors by name."""

    def __init__(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.request, self.tensors = request, tensors
        self.repeated = False  # whether several checks ask it
        self._packed: dict[tuple[str, ...], bytes] = {}

    def is_same(self, other: ForeseenRequest) -> bool:
        """Return whether both ask the same; as a key, each stands for itself."""
        return self.request == other.request and self.tensors == other.tensors

    def packed(self, held: set[str]) -> bytes:
        """As it travels to a worker that has the tensors ``held``; those it keeps are added."""
        told = {name: tensor for name, tensor in self.tensors.items() if name not in held}
        held.update(name for name in told if name.startswith(KEPT))
        names = tuple(told)
        blob = self._packed.get(names) or pack(self.request, told)
        if len(self._packed) < MOST_PACKED:
            self._packed[names] = blob
        return blob


# With each: whether the reply to an equal question may stand for its own.
Coming = Iterator[tuple[ForeseenRequest, bool]]


class Prefetcher:
    """Requests that one hand-in is going to get, and those that its worker has been sent.

    Args:
        budget: what one request may take.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._spare = budget.wall_seconds  # for all that is answered and that nobody asks
        self._coming: Coming = iter(())
        self._foreseen: deque[ForeseenRequest] = deque()  # next ones, in the order of the checks
        self._unsent: list[ForeseenRequest] = []  # those of them that wait to be sent
        self._unread: deque[ForeseenRequest] = deque()  # sent, and not answered in this order
        self._replies: dict[ForeseenRequest, bytes] = {}  # empty: it is on its way
        self._off = False
        self.expecting = False  # whether anything is foreseen
        self.is_answered: Callable[[ForeseenRequest], bool] = lambda _: False  # without a worker

    @property
    def begun(self) -> bool:
        """Return whether the worker may have begun with what nobody has asked yet."""
        return bool(self._unread)

    def expect(self, coming: Coming) -> None:
        """Foresee these questions, in this order, and no others."""
        self._end()
        if not self._off:
            self._coming = ((q, shared) for q, shared in coming if not self.is_answered(q))
            self.expecting = True

    def stop(self) -> None:
        """Foresee nothing any more, as long as this hand-in is asked."""
        self._off = True
        self._end()

    def forget(self) -> None:
        """The worker is gone, and its replies with it."""
        self._unread.clear()
        self._replies.clear()
        self._end()

    def reply(self, link: Link, asked: ForeseenRequest, held: set[str]) -> bytes:
        """The reply to a request that was foreseen.

        Args:
            link: the worker.
            asked: by a check, now.
            held: names of the tensors that the worker has.

        Returns:
            Nothing where it has to be asked; the worker is idle then.

        Raises:
            WorkerLost: while it answered this.
            LostUnrequested: while it answered something else.
            OutOfTurn: see there.
        """
        question = self._next(asked)
        if question is None and self._unread and not asked.request["fresh"]:
            self.stop()
            raise OutOfTurn
        if question is not None:
            self._send(link, held)
            if self._replies.get(question):
                return self._replies[question]
        unasked = self.begun
        while self._unread:
            answered, raw = self._read(link, question)
            if answered is question:
                return raw
        self._end()
        if unasked:
            link.take_prints()
        return b""

    def _next(self, asked: ForeseenRequest) -> ForeseenRequest | None:
        """The question that this is; those before it are passed over, as no check asks them."""
        if not self._foreseen:
            self._foresee()
        for place, question in enumerate(self._foreseen):
            if question.is_same(asked):
                for _ in range(place + 1):
                    self._foreseen.popleft()
                return question
        return None

    def _foresee(self) -> bool:
        """One question more, if there is one."""
        question, shared = next(self._coming, (None, False))
        if question is None:
            return False
        self._foreseen.append(question)
        if not (shared and question.repeated):
            self._unsent.append(question)
        elif question not in self._replies:
            self._replies[question] = b""
            self._unsent.append(question)
        return True

    def _send(self, link: Link, held: set[str]) -> None:
        """Have the worker find its next requests waiting."""
        if not self._unsent and len(self._unread) > link.most_ahead // 2:
            return
        while len(self._unread) + len(self._unsent) <= link.most_ahead and self._foresee():
            pass
        if self._unsent:
            link.proceed(*(question.packed(held) for question in self._unsent))
            self._unread.extend(self._unsent)
            self._unsent.clear()

    def _read(self, link: Link, wanted: ForeseenRequest | None) -> tuple[ForeseenRequest, bytes]:
        """The next reply, and what it answers."""
        answered = self._unread.popleft()
        if answered is wanted:
            link.start(self._budget)
            raw = link.finish()
        else:
            begun = time.monotonic()
            link.start(replace(self._budget, wall_seconds=max(self._spare, 0)))
            try:
                raw = link.finish()
            except WorkerLost as lost:
                raise LostUnrequested from lost
            finally:
                self._spare -= time.monotonic() - begun
        if answered in self._replies and len(raw) <= MOST_REMEMBERED:
            self._replies[answered] = raw
        if answered is wanted and self._unread and link.printed():
            self.stop()
            raise OutOfTurn
        return answered, raw

    def _end(self) -> None:
        self._coming, self.expecting = iter(()), False
        self._foreseen.clear()
        for question in self._unsent:  # no reply to it is on its way
            self._replies.pop(question, None)
        self._unsent.clear()

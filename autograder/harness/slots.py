"""Forked judges: as many as hand-ins are graded at a time, each kept for many hand-ins.

A judge never runs student code, so what it has warmed up may stay; a fork costs more than
judging. One that is lost (stuck, killed) loses the hand-in it works on and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autograder.sandbox import rlimits
from autograder.sandbox.jail import die_with_parent
from autograder.sandbox.link import ended

MEMORY_BYTES = 3 << 30  # beyond what it is forked with; a message takes 64 MiB
HAND_INS_PER_JUDGE = 100  # then a new one is forked: nothing of ours can grow without end

Work = Callable[[Mapping[str, Any]], dict[str, Any]]


class Slot:
    """One forked judge and the hand-in it works on (None while it is idle)."""

    def __init__(self, work: Work, others: list[Slot], streams: Sequence[int]) -> None:
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
                rlimits.cap_memory(MEMORY_BYTES)
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
        """Whether it has judged its share and should be let go."""
        return self._left <= 0

    def give(self, request: Mapping[str, Any]) -> None:
        """Hand it a request; the answer arrives at ``socket``."""
        self.hand_in = request["hand_in"]
        self._left -= 1
        with contextlib.suppress(OSError):  # it is gone; reading the answer tells
            self.socket.sendall(json.dumps(request).encode() + b"\n")

    def take(self) -> dict[str, Any] | None:
        """What has come: a whole answer, ``{"lost": why}`` when it ended, or None so far."""
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

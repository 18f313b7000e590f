"""The judge's end of a worker: one request, one reply, a deadline, and its prints."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autograder.course.records import Frame

KEPT_PRINTS = 16 << 10  # bytes kept of a worker's output
MAX_PRINTS = 4 << 20  # bytes printed during one request after which it is killed


@dataclass(frozen=True)
class Budget:
    """Limits of one request. CPU seconds decide; the wall cap is loose."""

    cpu_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class Usage:
    """Usage of a worker as the system tells it: CPU seconds, bytes of memory now and at most."""

    cpu_seconds: float
    resident: int
    highest: int


class WorkerLost(Exception):
    """The worker is gone.

    ``timed_out`` tells whether our deadline ended it, by which ``clock``; ``stray`` whether a
    signal did that none of our deadlines and limits has sent: a segfault comes again when the
    code runs once more, somebody's kill does not. ``stack`` is what the worker told of where it
    was, and ``frames`` those of the student in it.
    """

    def __init__(
        self,
        text: str,
        *,
        timed_out: bool = False,
        clock: str = "CPU",
        stray: bool = False,
        stack: str = "",
        frames: tuple[Frame, ...] = (),
    ) -> None:
        super().__init__(text)
        self.stack, self.frames = stack, frames
        self.timed_out = timed_out
        self.clock = clock
        self.stray = stray


class NoWorker(RuntimeError):
    """No worker is to be had (the zygote is gone, or none starts): our fault, never a zero."""


class Link(Protocol):
    """A living worker, however it was started."""

    most_ahead: int  # requests that it may be sent before the first of them is answered

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        """Send a message, return the reply; raises :class:`WorkerLost`."""
        self.begin(blob, budget)
        return self.finish()

    def begin(self, blob: bytes, budget: Budget) -> None:
        """Send a message, of which what is to come may take so much in all."""
        self.start(budget)
        self.proceed(blob)

    def start(self, budget: Budget) -> None:
        """Return what comes next may take so much in all."""

    def proceed(self, *blobs: bytes) -> None:
        """Send more on the way to the reply; the budget goes on."""

    def finish(self) -> bytes:
        """The next message that comes; raises :class:`WorkerLost`."""

    def unread(self) -> int:
        """Bytes sent that the worker cannot have read yet, as far as anybody can tell."""
        return 0

    def printed(self) -> bool:
        """Return whether student code has printed anything since :meth:`take_prints`."""

    def take_prints(self) -> str:
        """Return what student code printed since the last call."""

    def usage(self) -> Usage | None:
        """Return what the worker has used so far; None where the system does not tell."""
        return None

    def close(self) -> None:
        """End the worker."""


Starter = Callable[[], Link]


class Prints:
    """Keeps the tail of an output stream and counts the whole."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Append; only the last :data:`KEPT_PRINTS` bytes stay."""
        self.total += len(data)
        self._tail += data
        del self._tail[:-KEPT_PRINTS]

    @property
    def any(self) -> bool:
        """Return whether there is text to take."""
        return bool(self._tail)

    def cut(self, head: bytes) -> str:
        """Take what came after the last ``head``, which is forgotten with it; empty for none."""
        at = self._tail.rfind(head)
        if at < 0:
            return ""
        told = self._tail[at + len(head) :].decode("ascii", errors="replace")
        del self._tail[at:]
        return told

    def take(self) -> str:
        """The text kept, which is forgotten here."""
        if not self._tail:
            return ""
        text = self._tail.decode("utf-8", errors="replace")
        self._tail.clear()
        return text


def by_signal(number: int) -> str:
    """An end by a signal in words; most of the real-time ones have no name."""
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def ended(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        return by_signal(os.WTERMSIG(status))
    return f"exit status {os.waitstatus_to_exitcode(status)}"


# What student code raised, as checks see it.

MAX_TEXT = 400
MAX_LINE = 1 << 20  # a file of the largest size that is taken has no more lines


class StudentError(Exception):
    """Student code raised: where (``stage``), what (``type``, ``text``), the student's frames.

    ``kinds`` are the classes above its type: who promises a ValueError may raise one of their own.
    ``todo`` is the id of a stub's TODO that was reached, or None. When weights do not load,
    ``lacking`` and ``extra`` name parameters, ``plain`` those that are there, but not registered;
    ``shapes`` name, own shape and shape wanted.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.stage = str(error.get("stage"))[:20]
        self.type = str(error.get("type"))[:80]
        self.kinds = tuple(str(kind)[:80] for kind in list(error.get("kinds") or ())[:8])
        self.text = str(error.get("text"))[:MAX_TEXT]
        self.todo = str(error["todo"])[:60] if error.get("todo") else None
        self.frames = tuple(
            Frame(str(file)[:300], _line(line), str(function)[:80], str(text)[:200])
            for file, line, function, text in list(error.get("frames") or ())[:8]
        )
        self.lacking = _names(error.get("lacking"))
        self.plain = _names(error.get("plain"))
        self.extra = _names(error.get("extra"))
        self.shapes = tuple(
            (str(name)[:80], str(got)[:40], str(want)[:40])
            for name, got, want in list(error.get("shapes") or ())[:6]
        )
        super().__init__(f"{self.type}: {self.text}")

    def is_a(self, kind: str) -> bool:
        """Return whether ``except`` of this class would catch it."""
        return kind in (self.type, *self.kinds)


def _names(raw: Any) -> tuple[str, ...]:
    return tuple(str(name)[:80] for name in list(raw or ())[:6])


def _line(raw: Any) -> int:
    return max(0, min(int(raw), MAX_LINE))

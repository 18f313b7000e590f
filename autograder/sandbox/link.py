"""What the judge holds of a worker: one request, one reply, a deadline, and its prints."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autograder.sandbox.framing import WireError, frame, frame_length
from autograder.sandbox.rlimits import CPU_BACKSTOP_SECONDS

START_SECONDS = 120  # a zygote that still imports torch answers when it is done
KEPT_PRINTS = 16 << 10  # bytes kept of a worker's output
MAX_PRINTS = 4 << 20  # bytes printed during one request after which it is killed
# Where replies arrive, one at a time: a new buffer for each would be mapped, and faulted in.
_ARRIVING = memoryview(bytearray(1 << 18))


@dataclass(frozen=True)
class Budget:
    """What one request may take. CPU seconds decide; the wall cap is loose."""

    cpu_seconds: float
    wall_seconds: float


class WorkerLost(Exception):
    """The worker is gone.

    ``timed_out`` tells whether our deadline ended it, by which ``clock``; ``stray`` whether a
    signal did that none of our deadlines and limits has sent: a segfault comes again when the
    code runs once more, somebody's kill does not.
    """

    def __init__(
        self, text: str, *, timed_out: bool = False, clock: str = "CPU", stray: bool = False
    ) -> None:
        super().__init__(text)
        self.timed_out = timed_out
        self.clock = clock
        self.stray = stray


class NoWorker(RuntimeError):
    """No worker is to be had (the zygote is gone, or none starts): our fault, never a zero."""


class Link(Protocol):
    """A living worker, however it was started."""

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        """Send a message, return the reply; raises :class:`WorkerLost`."""

    def begin(self, blob: bytes, budget: Budget) -> None:
        """Send a message, of which what is to come may take so much in all."""

    def proceed(self, blob: bytes) -> None:
        """Send another one on the way to the reply; the budget goes on."""

    def finish(self) -> bytes:
        """The next message that comes; raises :class:`WorkerLost`."""

    def take_prints(self) -> str:
        """What student code printed since the last call."""

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


class ForkedLink:
    """A worker forked by the zygote; a hang-up on the status socket kills it."""

    def __init__(self, control: socket.socket) -> None:
        self._channel, channel = socket.socketpair()
        self._status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._output, output = os.pipe()
        try:
            fds = [channel.fileno(), output, status.fileno()]
            socket.send_fds(control, [b"fork"], fds)
        except OSError as error:
            self._status.close()
            self._channel.close()
            os.close(self._output)
            raise NoWorker(f"the zygote has ended ({error.strerror})") from None
        finally:
            channel.close()
            status.close()
            os.close(output)
        self._channel.setblocking(False)
        os.set_blocking(self._output, False)
        self._prints = Prints()
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)
        try:
            self._status.settimeout(START_SECONDS)
            pid = json.loads(self._status.recv(256))["pid"]
        except (OSError, ValueError, KeyError) as error:
            self.close()
            raise NoWorker(f"the zygote does not answer ({type(error).__name__})") from None
        # The kernel's per-process CPU clock, as clock_getcpuclockid(3) encodes it.
        self._clock = (~pid << 3) | 2

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        """Send, then wait for the reply while draining what student code prints."""
        self.begin(blob, budget)
        return self.finish()

    def begin(self, blob: bytes, budget: Budget) -> None:
        """Send what the channel takes at once; :meth:`finish` sends the rest."""
        self._budget, self._started, self._cpu_at_start = budget, time.monotonic(), self._cpu()
        self._prints.total = 0  # the cap is on one call: whoever prints a little each time may
        self.proceed(blob)

    def proceed(self, blob: bytes) -> None:
        """The same, with what is left of the budget."""
        self._out = self._send(memoryview(frame(blob)))

    def finish(self) -> bytes:
        """Wait for the next message while draining what student code prints."""
        budget, out = self._budget, self._out
        wall_left = max(0.0, budget.wall_seconds - (time.monotonic() - self._started))
        cpu_left = budget.cpu_seconds - (self._cpu() - self._cpu_at_start)
        if out:
            self._poll.modify(self._channel, select.POLLIN | select.POLLOUT)
        got, want = bytearray(), 8
        while len(got) < want or want == 8:
            for fd, event in self._poll.poll(1000 * min(wall_left, max(cpu_left, 0.02))):
                if fd == self._output:
                    self._drain()
                    continue
                if event & select.POLLOUT:
                    out = self._send(out)
                    if not out:
                        self._poll.modify(self._channel, select.POLLIN)
                if event & ~select.POLLOUT and not self._receive(got):
                    raise self._lost()
            if want == 8 and len(got) >= 8:
                try:
                    want = 8 + frame_length(bytes(got[:8]))
                except WireError as error:
                    raise WorkerLost(str(error)) from None
            if len(got) < want or want == 8:
                wall_left = budget.wall_seconds - (time.monotonic() - self._started)
                cpu_left = budget.cpu_seconds - (self._cpu() - self._cpu_at_start)
                if cpu_left <= 0:
                    raise WorkerLost(f"{budget.cpu_seconds:g}", timed_out=True)
                if wall_left <= 0:
                    raise WorkerLost(f"{budget.wall_seconds:g}", timed_out=True, clock="wall")
        return bytes(got[8:want])

    def take_prints(self) -> str:
        """What student code printed since the last call.

        A worker prints before it replies, so whoever waited for the reply has read that already.
        """
        return self._prints.take()

    def close(self) -> None:
        """Hang up: the zygote kills and reaps the worker."""
        self._status.close()
        self._channel.close()
        os.close(self._output)

    def _send(self, out: memoryview) -> memoryview:
        try:
            return out[self._channel.send(out) :]
        except BlockingIOError:
            return out
        except OSError:
            raise self._lost() from None

    def _receive(self, got: bytearray) -> bool:
        try:
            count = self._channel.recv_into(_ARRIVING)
        except BlockingIOError:
            return True
        except OSError:
            return False
        got += _ARRIVING[:count]
        return bool(count)

    def _drain(self) -> None:
        try:
            while data := os.read(self._output, 1 << 16):
                self._prints.add(data)
                if self._prints.total > MAX_PRINTS:
                    raise WorkerLost(f"more than {MAX_PRINTS >> 20} MiB were printed")
            self._poll.unregister(self._output)  # closed by the worker; nothing more comes
        except (BlockingIOError, KeyError):
            return

    def _cpu(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # it has ended; the channel will say so
            return 0.0

    def _lost(self) -> WorkerLost:
        self._drain()
        try:
            self._status.settimeout(5)
            if not (news := self._status.recv(256)):
                raise NoWorker("the zygote ended")  # and its workers with it
            said = json.loads(news)
            status = int(said["status"])
            stray = os.WIFSIGNALED(status) and said["cpu"] < CPU_BACKSTOP_SECONDS
            return WorkerLost(ended(status), stray=stray)
        except (OSError, ValueError, KeyError):
            return WorkerLost("it closed its channel")

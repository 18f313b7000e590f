"""Workers forked by the zygote, as Linux has them."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from contextlib import suppress
from pathlib import Path

from autograder.sandbox.framing import WireError, frame, frame_length
from autograder.sandbox.link import (
    MAX_PRINTS,
    Budget,
    Link,
    NoWorker,
    Prints,
    Usage,
    WorkerLost,
    ended,
)
from autograder.sandbox.rlimits import CPU_BACKSTOP_SECONDS

START_SECONDS = 120  # a zygote that still imports torch answers when it is done
# Seconds between asking again where there is no room for a process: workers end all the time.
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
# Where replies arrive, one at a time: a new buffer for each would be mapped, and faulted in.
_ARRIVING = memoryview(bytearray(1 << 18))


class ForkedLink(Link):
    """A worker forked by the zygote; a hang-up on the status socket kills it."""

    most_ahead = 16

    def __init__(self, control: socket.socket) -> None:
        pid = self._asked(control)
        for pause in PAUSES:
            if pid is not None:
                break
            time.sleep(pause)
            pid = self._asked(control)
        if pid is None:
            raise NoWorker(f"no room for one more process in {sum(PAUSES):.0f} s")
        self._status_file = Path(f"/proc/{pid}/status")
        # The kernel's per-process CPU clock, as clock_getcpuclockid(3) encodes it.
        self._clock = (~pid << 3) | 2
        self._channel.setblocking(False)
        os.set_blocking(self._output, False)
        self._prints = Prints()
        self._out = b""  # what the channel has not taken yet
        self._writing = 0  # whether it tells when it takes more
        self._in = bytearray()  # what has come beyond the last message
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)

    def _asked(self, control: socket.socket) -> int | None:
        """The pid of a worker; None where the system has room for no process now.

        Raises:
            NoWorker: the zygote has ended, or does not answer.
        """
        self._channel, channel = socket.socketpair()
        self._status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._output, output = os.pipe()
        try:
            fds = [channel.fileno(), output, status.fileno()]
            socket.send_fds(control, [b"fork"], fds)
        except OSError as error:
            self.close()
            raise NoWorker(f"the zygote has ended ({error.strerror})") from None
        finally:
            channel.close()
            status.close()
            os.close(output)
        try:
            self._status.settimeout(START_SECONDS)
            told = json.loads(self._status.recv(256))
            if "no_room" in told:
                self.close()
                return None
            pid: int = told["pid"]
        except (OSError, ValueError, KeyError) as error:
            self.close()
            raise NoWorker(f"the zygote does not answer ({type(error).__name__})") from None
        return pid

    def start(self, budget: Budget) -> None:
        """A worker that has gone ahead meanwhile has used less of it than it has taken."""
        self._budget, self._started, self._cpu_at_start = budget, time.monotonic(), self._cpu()
        self._prints.total = 0  # the cap is on one call: whoever prints a little each time may

    def proceed(self, *blobs: bytes) -> None:
        """Send what the channel takes at once; :meth:`finish` sends the rest."""
        self._out += b"".join(map(frame, blobs))
        self._send()

    def finish(self) -> bytes:
        """Wait for the next message while draining what student code prints."""
        message = self._message()
        while message is None:
            wall_left, cpu_left = self._left()
            for fd, event in self._poll.poll(1000 * max(0.0, min(wall_left, max(cpu_left, 0.02)))):
                if fd == self._output:
                    self._drain(most=1)  # what comes after may belong to the next request
                    continue
                if event & select.POLLOUT:
                    self._send()
                if event & ~select.POLLOUT and not self._receive():
                    raise self._lost()
            message = self._message()
            if message is None:
                wall_left, cpu_left = self._left()
                if cpu_left <= 0:
                    raise WorkerLost(f"{self._budget.cpu_seconds:g}", timed_out=True)
                if wall_left <= 0:
                    text = f"{self._budget.wall_seconds:g}"
                    raise WorkerLost(text, timed_out=True, clock="wall")
        return message

    def _left(self) -> tuple[float, float]:
        """Seconds of the budget that are left, on the wall and of CPU time."""
        wall, cpu = time.monotonic() - self._started, self._cpu() - self._cpu_at_start
        return self._budget.wall_seconds - wall, self._budget.cpu_seconds - cpu

    def _message(self) -> bytes | None:
        """The next message, once it is here whole."""
        if len(self._in) < 8:
            return None
        try:
            end = 8 + frame_length(bytes(self._in[:8]))
        except WireError as error:
            raise WorkerLost(str(error)) from None
        if len(self._in) < end:
            return None
        with memoryview(self._in) as view:
            message = bytes(view[8:end])
        del self._in[:end]
        return message

    def printed(self) -> bool:
        """A worker prints before it replies: of what has been answered nothing is missed."""
        try:
            self._drain()
        except WorkerLost:  # too much, and it is not clear by whom
            return True
        return self._prints.any

    def take_prints(self) -> str:
        """What student code printed since the last call."""
        with suppress(WorkerLost):  # too much; the next request will say so
            self._drain()
        return self._prints.take()

    def usage(self) -> Usage | None:
        """By the worker's CPU clock and its status in ``/proc``, neither of which it can write."""
        try:
            lines = self._status_file.read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines)
            resident, highest = (int(fields[name].split()[0]) for name in ("VmRSS", "VmHWM"))
        except (OSError, ValueError, LookupError):  # it has ended, or /proc is closed to us
            return None
        return Usage(self._cpu(), resident << 10, highest << 10)

    def close(self) -> None:
        """Hang up: the zygote kills and reaps the worker."""
        self._status.close()
        self._channel.close()
        os.close(self._output)

    def _send(self) -> None:
        try:
            self._out = self._out[self._channel.send(self._out) :]
        except BlockingIOError:
            pass
        except OSError:
            self._out = b""  # it has ended; what it still said is read, and then its end
        writing = select.POLLOUT if self._out else 0
        if writing != self._writing:
            self._writing = writing
            self._poll.modify(self._channel, select.POLLIN | writing)

    def _receive(self) -> bool:
        try:
            count = self._channel.recv_into(_ARRIVING)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._in += _ARRIVING[:count]
        return bool(count)

    def _drain(self, most: int = MAX_PRINTS) -> None:
        """Read what was printed, in so many pieces at most."""
        try:
            for _ in range(most):
                if not (data := os.read(self._output, 1 << 16)):
                    self._poll.unregister(self._output)  # closed by the worker
                    return
                self._prints.add(data)
                if self._prints.total > MAX_PRINTS:
                    raise WorkerLost(f"more than {MAX_PRINTS >> 20} MiB were printed")
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

"""Workers forked by the zygote, as Linux has them."""

from __future__ import annotations

import json
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from autograder.course.labfile import ROOT
from autograder.sandbox import stacks
from autograder.sandbox.links import (
    MAX_PRINTS,
    Budget,
    Link,
    NoWorker,
    Prints,
    Usage,
    WorkerLost,
    by_signal,
    ended,
)
from autograder.wire.frames import WireError, frame, frame_length
from autograder.worker.jail import CPU_BACKSTOP_SECONDS
from autograder.worker.loader import COURSE

START_SECONDS = 120  # a zygote that still imports torch answers when it is done
# Seconds between asking again where there is no room for a process: workers end all the time.
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
STACK_MS = 50  # waited for a worker to tell where it is
STACK_SECONDS = 0.5  # in all: one that prints on and on is not waited for
MOST_UNREAD = 256 << 20  # bytes that a worker leaves unread
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
        if len(self._out) > MOST_UNREAD:
            raise WorkerLost(f"more than {MOST_UNREAD >> 20} MiB were left unread")
        self._send()

    def finish(self) -> bytes:
        """Wait for the next message while draining what student code prints."""
        message = self._message()
        if message is not None and self._left()[0] <= 0:  # it keeps messages coming
            raise WorkerLost(f"{self._budget.wall_seconds:g}", timed_out=True, clock="wall")
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
                    text = f"{self._budget.cpu_seconds:g}"
                    raise WorkerLost(text, timed_out=True, stack=self._where())
                if wall_left <= 0:
                    text = f"{self._budget.wall_seconds:g}"
                    raise WorkerLost(text, timed_out=True, clock="wall", stack=self._where())
        return message

    def _where(self) -> str:
        """Return the worker's stack, which it prints when it is asked; empty if it does not."""
        with suppress(OSError, WorkerLost):
            self._status.send(b"where")
            poll = select.poll()
            poll.register(self._output, select.POLLIN)
            end = time.monotonic() + STACK_SECONDS
            while poll.poll(STACK_MS) and time.monotonic() < end:  # it is written at once
                before = self._prints.total
                self._drain()
                if self._prints.total == before:
                    break  # it has closed its end
        return self._prints.cut(stacks.HEAD)

    def unread(self) -> int:
        """Bytes that the channel has not taken: the worker cannot have read them."""
        return len(self._out)

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
        """Return what student code printed since the last call."""
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


# Workers without fork: a new Python per worker, as macOS and Windows need it.

# While torch is imported hardly anything becomes garbage, and looking for it takes a seventh of
# the time; preload lets it be looked for again.
BOOT = "import gc, sys; gc.disable(); sys.path.insert(0, sys.argv[1]); from {0} import main; main"
MARK = b"\0replied\x1f"  # ends, among the prints, what was printed before a message
MARK_SECONDS = 5.0  # waited for one, once: student code may have closed what it comes by


def command(module: str, root: Path, *args: str) -> list[str]:
    """The command line of an isolated Python that runs ``main`` of a module, by its full name."""
    code = f"{BOOT.format(module)}(sys.argv)"
    return [sys.executable, "-I", "-B", "-X", "utf8", "-c", code, str(root), *args]


def clean_environment() -> dict[str, str]:
    """The few variables that Python and torch need; nothing that an instructor has set."""
    kept = {"PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG"}
    environment = {name: value for name, value in os.environ.items() if name in kept}
    one = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    # Freed memory stays with the process: giving it back and faulting it in again for every
    # tensor was a fifth of a worker's time.
    keep = {
        "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # fewer page faults, by half
        "CUDA_VISIBLE_DEVICES": "",  # hand-ins are graded on the CPU, wherever that is
    }
    return environment | dict.fromkeys(one, "1") | keep | {COURSE: str(ROOT)}


class SpawnedLink(Link):
    """A worker process of its own, talked to over its standard streams.

    Threads read the streams, since Windows cannot poll pipes. The CPU clock of another
    process is not to be had everywhere: here the wall cap alone decides.

    Prints come beside the messages and may be read after them: a worker puts a :data:`MARK`
    among them before each message. Student code that forges marks has its own prints read
    early; nothing else hangs on them.
    """

    most_ahead = 0  # whose a print is would take a look at every mark

    def __init__(
        self,
        root: Path,
        memory_bytes: int,
        given: Sequence[str] = (),
        files: str = "",
        mapping: tuple[str, ...] = (),
    ) -> None:
        self._process = subprocess.Popen(
            command(__name__, root, str(memory_bytes), ",".join(given), files, *mapping),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            cwd=Path(root.anchor),
        )
        self._messages: queue.Queue[bytes | WorkerLost] = queue.Queue()
        self._prints = Prints()
        self._change = threading.Condition()  # of what the threads share with the judge's
        self._messages_read = self._marks = 0
        self._marks_end = False  # no more will come, or none is waited for
        self._flooded = False
        for target in (self._read_messages, self._read_prints):
            threading.Thread(target=target, daemon=True).start()

    def start(self, budget: Budget) -> None:
        """The wall cap begins to run anew."""
        with self._change:
            self._prints.total = 0
        self._wall_seconds, self._started = budget.wall_seconds, time.monotonic()

    def proceed(self, *blobs: bytes) -> None:
        """Send more; the wall cap goes on."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"".join(map(frame, blobs)))
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; the reader thread knows how

    def finish(self) -> bytes:
        """Wait for the next message at most what is left of the wall cap."""
        self._messages_read += 1  # before the end there is no mark, but the stream ends too
        left = max(0.0, self._wall_seconds - (time.monotonic() - self._started))
        try:
            message = self._messages.get(timeout=left)
        except queue.Empty:
            self._process.kill()
            text = f"{self._wall_seconds:g}"
            raise WorkerLost(text, timed_out=True, clock="wall") from None
        if isinstance(message, WorkerLost):
            raise message
        return message

    def printed(self) -> bool:
        """Return whether there is anything to take."""
        with self._change:
            self._wait_for_prints()
            return self._prints.any

    def take_prints(self) -> str:
        """Return what student code printed since the last call."""
        with self._change:
            self._wait_for_prints()
            return self._prints.take()

    def _wait_for_prints(self) -> None:
        """Until all is read that was printed before the last message, or the stream has ended."""

        def complete() -> bool:
            return self._marks_end or self._marks >= self._messages_read

        self._marks_end = not self._change.wait_for(complete, MARK_SECONDS) or self._marks_end

    def close(self) -> None:
        """Kill the worker and close its pipes."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # unsent bytes to a dead worker
                    continue

    def _read_messages(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        try:
            while len(head := stream.read(8)) == 8:
                length = frame_length(head)
                body = stream.read(length)
                if len(body) < length:
                    break
                self._messages.put(body)
        except (WireError, ValueError, OSError) as error:
            self._process.kill()
            self._messages.put(WorkerLost(str(error)))
            return
        code = self._process.wait()
        if self._flooded:
            self._messages.put(WorkerLost(f"more than {MAX_PRINTS >> 20} MiB were printed"))
        elif code < 0:
            self._messages.put(WorkerLost(by_signal(-code), stray=True))
        else:
            self._messages.put(WorkerLost(f"exit status {code}"))

    def _read_prints(self) -> None:
        stream: IO[bytes] | None = self._process.stderr
        assert stream is not None
        rest = b""  # perhaps the beginning of a mark
        try:
            while data := stream.read1(1 << 16):  # type: ignore[attr-defined]
                *marked, rest = (rest + data).split(MARK)
                held = _begun_mark(rest)
                text = b"".join(marked) + rest[: len(rest) - held]
                rest = rest[len(rest) - held :]
                self._keep(text, len(marked))
        except (ValueError, OSError):  # closed while reading
            pass
        self._keep(rest, 0, end=True)

    def _keep(self, text: bytes, marks: int, *, end: bool = False) -> None:
        """Add what was read, and tell whoever waits for it."""
        with self._change:
            self._prints.add(text)
            self._marks += marks
            self._marks_end |= end
            self._change.notify()
        if self._prints.total > MAX_PRINTS:
            self._flooded = True
            self._process.kill()


def _begun_mark(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a mark."""
    return next(n for n in range(len(MARK) - 1, -1, -1) if data.endswith(MARK[:n]))


def main(argv: list[str]) -> None:
    """``python -I -c … ROOT MEMORY_BYTES GIVEN FILES [WEIGHTS PREFIX…]``: be a worker on stdio."""
    from autograder.worker import preload, real_weights, worker

    given = argv[3].split(",") if argv[3] else ()
    jail = preload.jail(Path(argv[1]), int(argv[2]), given, given_files=argv[4])
    if argv[5:]:
        real_weights.hold(Path(argv[5]), tuple(argv[6:]))
    # Frames keep the first two descriptors' duplicates; prints of student code go to stderr.
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    marks = os.dup(2)
    worker.serve(reading, writing, jail.enter(), before_message=partial(_mark, marks))


def _mark(fd: int) -> None:
    with suppress(OSError):  # closed by student code
        os.write(fd, MARK)

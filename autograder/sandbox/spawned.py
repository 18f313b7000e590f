"""Workers without fork: a new Python per worker, as macOS and Windows need it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from autograder.sandbox.framing import WireError, frame, frame_length
from autograder.sandbox.link import MAX_PRINTS, Budget, Link, Prints, WorkerLost, by_signal

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
    }
    return environment | dict.fromkeys(one, "1") | keep


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
        self, root: Path, memory_bytes: int, files: str = "", mapping: tuple[str, ...] = ()
    ) -> None:
        self._process = subprocess.Popen(
            command(__name__, root, str(memory_bytes), files, *mapping),
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
        """Whether there is anything to take."""
        with self._change:
            self._wait_for_prints()
            return self._prints.any

    def take_prints(self) -> str:
        """What student code printed since the last call."""
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
    """How many bytes at the end may be the beginning of a mark."""
    return next(n for n in range(len(MARK) - 1, -1, -1) if data.endswith(MARK[:n]))


def main(argv: list[str]) -> None:
    """``python -I -c … ROOT MEMORY_BYTES FILES [WEIGHTS PREFIX…]``: be a worker on stdio."""
    from autograder.sandbox import mapped, preload, worker

    jail = preload.jail(Path(argv[1]), int(argv[2]), given_files=argv[3])
    if argv[4:]:
        mapped.hold(Path(argv[4]), tuple(argv[5:]))
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

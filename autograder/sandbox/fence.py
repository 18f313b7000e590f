"""Reads what strangers wrote in a process of its own: no input costs more than its own result.

A reader that never ends, takes all memory or breaks is ended with its process, and the next input
gets a fresh one. CPU seconds count, so a busy machine condemns nobody.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from autograder.sandbox import workers
from autograder.worker import jail

CPU_SECONDS = 20.0  # for one input; a right hand-in takes milliseconds
WALL_SECONDS = 600.0  # where nothing counts CPU seconds, and for whoever waits without computing
MEMORY_BYTES = 2 << 30
_ROOT = Path(__file__).resolve().parents[2]
_T = TypeVar("_T")


class FenceError(Exception):
    """Reading gave nothing.

    ``why`` is ``slow`` or ``memory`` (the input asks for too much), or ``broken``: our fault.
    """

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(f"{why}: {text}" if text else why)
        self.why, self.text = why, text


class Fence:
    """Calls functions in a process of its own, one at a time; a context that ends the process."""

    def __init__(self, seconds: float = CPU_SECONDS, memory: int = MEMORY_BYTES) -> None:
        self._limits = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Fence:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """``function(*arguments)``, a function of a module, with what can be pickled.

        Raises:
            FenceError: too slow, too much memory, or the function raised.
        """
        process = self._process = self._process or _begun(*self._limits)
        assert process.stdin is not None and process.stdout is not None
        late = threading.Timer(WALL_SECONDS, process.kill)
        late.daemon = True  # nobody waits for it, wherever an interrupt comes
        try:
            late.start()
            pickle.dump((function, arguments), process.stdin)
            process.stdin.flush()
            why, told = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            status = process.returncode
            slow = not late.is_alive() or status == -getattr(signal, "SIGPROF", 0)
            why, told = ("slow", "") if slow else ("broken", f"status {status}")
        except BaseException:
            self._end()
            raise
        finally:
            late.cancel()
        if why == "done":
            result: _T = told
            return result
        self._end()  # what broke it may have left anything behind
        raise FenceError(why, told)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(OSError):  # what was not written yet has no reader
                stream.close()
        process.wait()


@contextmanager
def untimed() -> Iterator[None]:
    """Seconds that no input has to answer for: the class's own archive, of any size."""
    if sys.platform == "win32":
        yield
        return
    left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_PROF, left)


def main(argv: list[str]) -> None:
    """``… ROOT CPU_SECONDS MEMORY_BYTES``: answer calls on the standard streams to their end."""
    seconds, memory = float(argv[2]), int(argv[3])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print is no answer
    gc.enable()
    if sys.platform != "win32":
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also inside C code
        jail.cap_memory(memory)
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _clock(seconds)
        answer = _answer(function, arguments)
        _clock(0)
        answers.write(answer)
        answers.flush()


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps(("done", function(*arguments)))
    except MemoryError:
        return pickle.dumps(("memory", ""))
    except Exception as error:
        return pickle.dumps(("broken", f"{type(error).__name__}: {error}"[:200]))


def _clock(seconds: float) -> None:
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _begun(seconds: float, memory: int) -> subprocess.Popen[bytes]:
    line = workers.command("autograder.sandbox.fence", _ROOT, str(seconds), str(memory))
    return subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt is for us: we end it
    )

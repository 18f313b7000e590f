"""The limit on what runs in this process: it ends what never ends, and only that."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count

import pytest

from autograder.sandbox.local import cpu_limit

SECONDS = 0.1


class _Swallows:
    """Takes nearly all the time in a place where Python reports an exception and goes on."""

    left = 1

    def __del__(self) -> None:
        if _Swallows.left:
            _Swallows.left = 0
            while True:
                pass


def test_what_never_ends_is_ended() -> None:
    with cpu_limit(SECONDS) as over:
        for _ in count():
            pass
    assert over


def test_what_ends_is_let_alone() -> None:
    with cpu_limit(SECONDS) as over:
        pass
    before = time.process_time()
    while time.process_time() < before + 2 * SECONDS:  # nothing comes afterwards
        pass
    assert not over


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stroke_that_python_swallows_comes_again() -> None:
    _Swallows.left = 1
    with cpu_limit(SECONDS) as over:
        for _ in count():
            _Swallows()
    assert len(over) >= 2  # the next one, or one after that


LATE = f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])  # in every thread to come
import time
from autograder.sandbox.local import cpu_limit
with cpu_limit({SECONDS}):
    before = time.process_time()
    while time.process_time() < before + {2 * SECONDS}:
        pass
assert signal.SIGPROF not in signal.sigpending()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
print("alive")
"""


def test_a_stroke_that_comes_late_ends_nobody() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr

"""What asks for workers, and what forks them, where a fork fails."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from autograder.sandbox import workers
from autograder.sandbox.links import NoWorker
from autograder.sandbox.workers import ForkedLink
from autograder.worker import zygote
from autograder.worker.jail import MOST_THREADS, Jail

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The judge's end of a zygote that runs in a thread here."""
    monkeypatch.setattr(workers, "PAUSES", (0.01, 0.01, 0.01))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    jail = Jail(0, 0, {}, None, b"", (), MOST_THREADS)
    thread = threading.Thread(target=zygote.serve, args=(theirs, jail))
    thread.start()
    yield ours
    ours.close()
    thread.join(10)
    theirs.close()
    assert not thread.is_alive()


def failing(times: int, then: Callable[[], int]) -> Callable[[], int]:
    left = [times]

    def fork() -> int:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return then()

    return fork


def test_a_fork_that_fails_is_asked_for_again(
    control: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(zygote.os, "fork", failing(3, lambda: worker.pid))
    link = ForkedLink(control)
    link.close()  # the zygote kills it
    worker.wait(10)


def test_where_there_is_no_room_at_all_the_zygote_lives_on(
    control: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote.os, "fork", failing(1 << 30, lambda: 0))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(NoWorker, match="no room"):
            ForkedLink(control)
    for _ in range(100):  # the zygote tells first, and closes then
        if len(os.listdir("/proc/self/fd")) == before:
            return
        time.sleep(0.01)
    pytest.fail("descriptors are left")

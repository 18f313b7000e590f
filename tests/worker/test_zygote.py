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
from pathlib import Path

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


def test_a_worker_holds_its_own_descriptors_only(
    control: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever a library has opened in the zygote: a device, say."""

    def told(reading: int, writing: int, layers: tuple[str, ...]) -> None:
        os.write(writing, str([fd for fd in range(3, 1000) if is_open(fd)] == [writing]).encode())

    monkeypatch.setattr(zygote.worker, "serve", told)
    monkeypatch.setattr(Jail, "enter", lambda self: ())
    ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
    with (tmp_path / "device").open("w"):
        socket.send_fds(control, [b"w"], [end.fileno() for end in theirs])
        ours[0].settimeout(10)
        assert ours[0].recv(10) == b"True"
    for end in (*ours, *theirs):
        end.close()


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_thread_of_a_driver_is_no_reason_not_to_fork() -> None:
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(2)]
    before = set(zygote.other_threads())
    for thread, name in zip(threads, ("cuda00001400006", "pool"), strict=True):
        thread.start()
        Path(f"/proc/self/task/{thread.native_id}/comm").write_text(name)
    found = set(zygote.other_threads())
    done.set()
    assert found - before == {"pool"}

"""The zygote: a clean, single-threaded process with torch, from which workers are forked.

It is exec'd with ``python -I`` and an empty environment, has never seen an answer, and
serves one thing: a datagram on its control socket asks for a worker and carries three
descriptors: the worker's channel, its output pipe, and a status socket. On the status
socket the zygote reports ``{"pid": n}`` (or ``{"no_room": why}``) and later
``{"status": n, "cpu": seconds}``; what the judge sends there makes the worker print where it is,
and when the judge closes its end, the worker is killed. There is
no other way to talk to it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from autograder.worker import preload, real_weights, worker
from autograder.worker.jail import Jail

DRIVER = "cuda"  # begins the names of its threads, as in cuda00001400006 and cuda-EvtHandlr


def serve(control: socket.socket, jail: Jail) -> None:
    """Fork a worker per request until every judge has closed the control socket."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    by_status: dict[int, _Child] = {}
    by_pidfd: dict[int, _Child] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == control.fileno():
                data, fds, _, _ = socket.recv_fds(control, 16, 3)
                if not data:
                    for child in by_pidfd.values():
                        child.kill()
                    return
                if len(fds) == 3:
                    made = _fork(jail, fds)
                    if made is not None:
                        by_status[made.status.fileno()] = by_pidfd[made.pidfd] = made
                        poll.register(made.status, select.POLLIN)
                        poll.register(made.pidfd, select.POLLIN)
            elif fd in by_status and by_status[fd].is_asked():
                by_status[fd].tell_where()
            elif fd in by_status:  # the judge hung up
                by_status.pop(fd).kill()
                poll.unregister(fd)
            elif fd in by_pidfd:  # the worker ended
                child = by_pidfd.pop(fd)
                poll.unregister(fd)
                if by_status.pop(child.status.fileno(), None):
                    poll.unregister(child.status)
                child.reap()


class _Child:
    """A worker: its pid, a descriptor that tells its end, and who wants to know."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.status = status
        self._tell({"pid": pid})

    def is_asked(self) -> bool:
        """Whether the judge wants to know something, and has not hung up."""
        try:
            return bool(self.status.recv(16))
        except OSError:
            return False

    def tell_where(self) -> None:
        """Have the worker write among its prints where it is."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGUSR1)

    def kill(self) -> None:
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def reap(self) -> None:
        _, status, usage = os.wait4(self.pid, 0)
        self._tell({"status": status, "cpu": usage.ru_utime + usage.ru_stime})
        self.status.close()
        os.close(self.pidfd)

    def _tell(self, news: dict[str, float]) -> None:
        with contextlib.suppress(OSError):  # the judge is gone; nobody wants to know
            self.status.send(json.dumps(news).encode())


def _fork(jail: Jail, fds: list[int]) -> _Child | None:
    """A worker with these descriptors; None where the system has room for no process now."""
    channel, output, status = fds
    try:
        pid = os.fork()
    except OSError as error:  # somebody's threads, perhaps; the judge asks again
        with contextlib.suppress(OSError), socket.socket(fileno=status) as told:
            told.send(json.dumps({"no_room": error.strerror}).encode())
        os.close(channel)
        os.close(output)
        return None
    if pid:
        os.close(channel)
        os.close(output)
        return _Child(pid, socket.socket(fileno=status))
    code = 1
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        _close_all_but({0, 1, 2, channel, *jail.descriptors})
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
        worker.serve(channel, channel, jail.enter())
        code = 0
    except BaseException as error:
        # Only our own faults arrive here: student exceptions end inside the session.
        os.write(2, f"worker: {type(error).__name__}: {error}\n".encode()[:500])
    finally:
        os._exit(code)


def _close_all_but(kept: set[int]) -> None:
    """Close what is open here, whoever opened it: a library's device is no student's."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd not in kept:
            with contextlib.suppress(OSError):  # the one of this very list
                os.close(fd)


def other_threads() -> list[str]:
    """The names of threads beside the first that may hold locks when this process forks.

    The one of NVIDIA's driver is not among them: it waits, and no worker calls the driver.
    """
    tasks = [task for task in Path("/proc/self/task").iterdir() if int(task.name) != os.getpid()]
    names = [(task / "comm").read_text().strip() for task in tasks]
    return [name for name in names if not name.startswith(DRIVER)]


def main(argv: list[str]) -> None:
    """``python -I -c … ROOT MEMORY_BYTES CONTROL_FD GIVEN LAYERS_OFF FILES [WEIGHTS PREFIX…]``.

    ``GIVEN``: modules that the lab gives, joined by commas.
    ``LAYERS_OFF``: layers of isolation to leave off, joined by commas; empty as a rule.
    ``FILES``: a folder that workers may read; empty where the lab has none.
    """
    given, without = (names.split(",") if names else () for names in argv[4:6])
    jail = preload.jail(Path(argv[1]), int(argv[2]), given, without, argv[6])
    if argv[7:]:
        real_weights.hold(Path(argv[7]), tuple(argv[8:]))
    if others := other_threads():
        sys.exit(f"zygote: other threads ({', '.join(others)}), with which a fork would hang")
    serve(socket.socket(fileno=int(argv[3])), jail)

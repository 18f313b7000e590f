"""Resource limits of a worker: what any POSIX kernel enforces without help.

Soft and hard limit are set alike, so a process without privileges cannot raise them again.
Source: getrlimit(2). The stack is left alone: it is also the size of every thread's stack.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import resource

# Enough for lazy imports beside the inherited pipes.
_OPEN_FILES = 128
_THREADS = re.compile(rb"(?s)\nUid:\t(\d+).*?\nThreads:\t(\d+)")
_MMAP_THRESHOLD, _RETURNED = -3, 1 << 18  # of mallopt(3), in glibc; bytes
CPU_BACKSTOP_SECONDS = 600  # of a worker; the deadline per check is far below this


def unavailable() -> str | None:
    """Why no limit can be set here, or None if they can."""
    return "this system has no setrlimit" if sys.platform == "win32" else None


def _lower(kind: int, wanted: int) -> bool:
    """Set soft and hard limit to `wanted`, or to the hard limit where that is lower already."""
    if sys.platform == "win32":
        return False
    try:
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
        return False
    return True


def _address_space() -> int:
    """Bytes of address space this process has mapped (Linux: first field of statm)."""
    if sys.platform == "win32":
        return 0
    # Bare descriptors: a file object costs 0.1 ms in a child that has just been forked.
    fd = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(fd, 256).split()[0]) * resource.getpagesize()
    finally:
        os.close(fd)


def bind(memory_bytes: int, cpu_seconds: int, forbid_processes: bool) -> bool:
    """Bind all limits to this process; True if those that matter hold.

    `memory_bytes` is what may be mapped beyond what the process has now; `cpu_seconds` counts
    from its fork and ends in SIGKILL (a backstop: the deadline belongs to whoever forked).
    `forbid_processes` also stops threads on Linux, and does nothing for root: ask for it only
    where no seccomp filter keeps new processes away.
    """
    if sys.platform == "win32":
        return False
    # Past a size limit of 0, write() then fails with EFBIG instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    held = _lower(resource.RLIMIT_CPU, cpu_seconds) & _lower(resource.RLIMIT_FSIZE, 0)
    if sys.platform == "linux":
        # Elsewhere address space is not accounted in a way that a limit could use.
        try:
            held &= _lower(resource.RLIMIT_AS, _address_space() + memory_bytes)
        except OSError:
            held = False
        _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if forbid_processes:
        _lower(resource.RLIMIT_NPROC, 0)
    return held


def limit_threads(most: int) -> None:
    """Cap the processes and threads of this process's user, all counted together.

    Raises:
        OSError: this process may not.
    """
    if sys.platform == "win32" or not _lower(resource.RLIMIT_NPROC, most):
        raise OSError("no limit of threads")


def threads_of(user: int) -> int:
    """Count the threads that a user has now, in processes that can be seen (Linux)."""
    found = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if path.stat().st_uid in (user, 0):  # root's: also what may not be looked into
                told = _THREADS.search((path / "status").read_bytes())
                found += int(told[2]) if told and int(told[1]) == user else 0
    return found


def cap_memory(memory_bytes: int) -> None:
    """Let a process of ours map so much beyond what it has now (Linux); it may undo that."""
    if sys.platform == "linux":
        with suppress(OSError, ValueError):  # no /proc, or a lower limit stands already
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory_bytes, hard))


@contextmanager
def narrowed(extra_bytes: int) -> Iterator[bool]:
    """Leave this process `extra_bytes` of address space that it may still map, inside the block.

    A jailed worker may neither set a limit nor read what it has mapped. So its room is felt
    out, and all but `extra_bytes` of it filled with a mapping that nobody can touch. Yields
    whether that holds: a process without a limit of its own has no room to be narrowed.
    """
    if sys.platform != "linux" or not extra_bytes:
        yield False
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    filled = None if limit == resource.RLIM_INFINITY else _room(limit) - extra_bytes
    if filled is None or filled <= 0:
        yield filled is not None
        return
    with _untouchable(filled):
        yield True


def _room(limit: int) -> int:
    """Bytes that can still be mapped at once, up to a page; at most `limit`."""
    low, high = 0, limit // mmap.PAGESIZE + 1  # in pages: `low` can be mapped, `high` cannot
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _untouchable(middle * mmap.PAGESIZE).close()
            low = middle
        except OSError:
            high = middle
    return low * mmap.PAGESIZE


def _untouchable(size: int) -> mmap.mmap:
    """Address space without memory behind it (no access, so nothing is ever committed)."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)


def return_memory() -> bool:
    """Have larger pieces of memory returned as soon as they are freed; True if that took.

    As a rule they stay, which is faster, and their holes make a peak several times as high.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _RETURNED))
    except (OSError, AttributeError, TypeError):  # a library of another kind
        return False

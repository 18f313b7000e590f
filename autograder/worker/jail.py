"""The unprivileged isolation of a forked child that runs a student's code.

`Jail.prepare` does the slow part once, in the zygote; `Jail.enter` binds every layer that this
machine has inside the child, in about a millisecond. A layer that is missing is never an error
here: it is absent from the result, `Jail.missing` says why, and `guarantees` and `level` say
what that costs, so that the caller can report it or refuse.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import signal
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from autograder.worker import landlock, seccomp

# Resource limits of a worker: what any POSIX kernel enforces without help.
#
# Soft and hard limit are set alike, so a process without privileges cannot raise them again.
# Source: getrlimit(2). The stack is left alone: it is also the size of every thread's stack.

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


def counted_group(most: int) -> int | None:
    """Make a control group of at most `most` processes and threads; None where none can be had.

    Returns:
        A descriptor: a process that writes 0 to it joins the group, and so do its threads.
    """
    for line in _text("/proc/self/mountinfo").splitlines():
        place, _, told = line.partition(" - ")
        kind, _, options = told.partition(" ")
        if kind != "cgroup2" and not (kind == "cgroup" and "pids" in options.split(",")):
            continue
        root = Path(place.split(" ")[4])
        with suppress(OSError):
            for group in root.glob("autograder-*"):
                if not Path("/proc", group.name.rpartition("-")[2]).exists():
                    group.rmdir()  # of a process that has ended
        group = root / f"autograder-{os.getpid()}"
        try:
            group.mkdir(exist_ok=True)
            (group / "pids.max").write_text(str(most))
            return os.open(group / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            with suppress(OSError):
                group.rmdir()
    return None


def _join(group: int) -> None:
    """Have this process counted there. Raises OSError."""
    os.write(group, b"0")


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""


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


LAYERS: tuple[str, ...] = (
    "rlimits",
    "no_new_privs",
    "uid",
    "threads",
    "capabilities",
    "parent_death",
    "landlock_files",
    "landlock_network",
    "landlock_scope",
    "seccomp",
)

# Each guarantee, and the sets of layers of which one must be bound in full.
_PROMISES: Mapping[str, tuple[frozenset[str], ...]] = {
    "files": (frozenset(("landlock_files", "seccomp")),),
    "writes": (frozenset(("seccomp", "rlimits")),),
    "network": (frozenset(("seccomp",)),),
    "processes": (frozenset(("seccomp", "parent_death")),),
    "memory": (frozenset(("rlimits", "seccomp")),),
    "cpu": (frozenset(("rlimits",)),),
    "privileges": (frozenset(("no_new_privs", "capabilities", "seccomp")),),
    "signals": (frozenset(("seccomp",)), frozenset(("landlock_scope",))),
}

MOST_THREADS = 512  # of all workers together, beside those that their user has already
_NOBODY = 65534
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_SIGKILL = 9  # on every Linux; signal.SIGKILL does not exist on Windows
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
# _LINUX_CAPABILITY_VERSION_3 for the calling thread, and two structs of three empty words.
_CAP_HEADER = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
_CAP_EMPTY = ctypes.create_string_buffer(24)

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
if _LIBC is not None:
    _LIBC.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def guarantees(layers: Collection[str]) -> frozenset[str]:
    """Return what holds for a process in which these layers are bound.

    files: it reads nothing but what was named, changes nothing on disk, not even modes and
    times, and reaches no memory of other processes. writes: the second of these alone.
    network: no socket of any kind. processes: it starts none and does not outlive the process
    that forked it. memory: address space is capped and there is no way round the cap. cpu: so
    is CPU time. privileges: it has none and gains none. signals: it reaches only itself.
    """
    bound = frozenset(layers)
    return frozenset(name for name, ways in _PROMISES.items() if any(way <= bound for way in ways))


def level(layers: Collection[str]) -> str:
    """Return how far a score and the answers are safe from the code that is graded.

    "strong": every guarantee holds. "medium": all but `files`, so nothing is changed, started,
    sent or left behind, but a hand-in may read what the grader's user may read, answers too.
    "weak": anything less; then run only code that you would run yourself.
    """
    absent = frozenset(_PROMISES) - guarantees(layers)
    if not absent:
        return "strong"
    return "medium" if absent == {"files"} else "weak"


def harden_parent() -> bool:
    """Keep processes of the same user out of this one's memory (judge, zygote); True if done.

    It also switches off core dumps. A no-op outside Linux.
    """
    return _bound(_prctl, _PR_SET_DUMPABLE, 0)


def die_with_parent() -> bool:
    """Let the kernel end this process with the thread that forked it; True if it will.

    Call it in the child. A no-op outside Linux.
    """
    return _bound(_prctl, _PR_SET_PDEATHSIG, _SIGKILL)


def _prctl(option: int, first: int = 0) -> None:
    """One prctl; raises OSError."""
    if _LIBC is None:
        raise OSError(errno.ENOSYS, "prctl: Linux only")
    if _LIBC.prctl(option, first, 0, 0, 0) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def _bound(bind: Callable[..., None], *args: object) -> bool:
    """Return whether a layer took; one that did not is simply not reported."""
    try:
        bind(*args)
    except OSError:
        return False
    return True


def _drop_bounding_set() -> None:
    """Give up every capability that an exec could bring back; needs root, harmless without."""
    capability = 0
    # The bare call, forty times: it ends past the last capability, or at once without privilege.
    while _LIBC is not None and _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1


def _become_nobody() -> None:
    """Leave root for good. Raises OSError."""
    if sys.platform == "linux":
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _drop_capabilities() -> None:
    """Empty the effective, permitted, inheritable and ambient sets. Raises OSError."""
    _bound(_prctl, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    seccomp.syscall("capset", ctypes.addressof(_CAP_HEADER), ctypes.addressof(_CAP_EMPTY))


def _closed_to_nobody(paths: Iterable[str]) -> str | None:
    """The first path that a user without any group could not read, or None."""
    seen: set[str] = set()
    for path in paths:
        here, needed = os.path.realpath(path), 0o4
        while here not in seen:
            try:
                mode = os.stat(here).st_mode
            except OSError:
                return here
            # A folder must be entered; the path itself must be read as well.
            needed |= 0o1 if os.path.isdir(here) else 0
            if mode & needed != needed:
                return here
            seen.add(here)
            here, needed = os.path.dirname(here), 0
    return None


def _uid_unavailable(readable: Sequence[str]) -> str | None:
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root, on Linux, can become another user"
    closed = _closed_to_nobody(readable)
    return f"the user nobody could not read {closed}, which Python needs" if closed else None


@dataclass(frozen=True)
class Jail:
    """A prepared isolation; fork first, then call `enter` in the child.

    `missing` maps every layer that this machine cannot bind to one sentence saying why.
    """

    memory_bytes: int
    cpu_seconds: int
    missing: Mapping[str, str]
    _ruleset: int | None
    _filter: bytes
    _pid_offsets: tuple[int, ...]
    _most_threads: int
    _group: int | None = None

    @classmethod
    def prepare(
        cls,
        readable: Sequence[str],
        memory_bytes: int,
        cpu_seconds: int,
        without: Collection[str] = (),
    ) -> Jail:
        """Do once what all children share: probe the kernel, build ruleset and filter.

        Call it in the zygote after `import torch`. `readable`: files and trees, absolute;
        `memory_bytes`: address space beyond what the child has when it enters;
        `cpu_seconds`: CPU time of the child in all; `without`: layers to leave off, with which
        tests show what each of them stops. Raises nothing for a missing layer.
        """
        off = set(without)
        if any(layer.startswith("landlock") for layer in off):  # one ruleset binds them all
            off.update(layer for layer in LAYERS if layer.startswith("landlock"))
        missing = dict.fromkeys(off, "it was switched off")
        for layer, why in (
            ("rlimits", unavailable()),
            ("uid", _uid_unavailable(readable)),
            ("seccomp", seccomp.unavailable()),
        ):
            if why:
                missing[layer] = why
        user = os.geteuid() if "uid" in missing and _LIBC is not None else _NOBODY
        counted = user == 0 and not {"threads", "rlimits"} & missing.keys()
        group = counted_group(MOST_THREADS) if counted else None
        if user == 0 and group is None:
            missing["threads"] = "workers run as root, and no control group of ours counts them"
        if _LIBC is None:
            for layer in ("no_new_privs", "threads", "capabilities", "parent_death"):
                missing[layer] = "this system is not Linux"
        elif seccomp.machine() is None:
            missing["capabilities"] = "no system-call numbers for this architecture"
        version, ruleset = 0 if "landlock_files" in off else landlock.abi(), None
        why_not = f"the kernel's Landlock ABI is {version}" if version else "no Landlock here"
        try:
            ruleset = landlock.build(readable, landlock.import_roots()) if version else None
        except OSError as error:
            version, why_not = 0, f"the Landlock ruleset could not be built ({error.strerror})"
        for layer in LAYERS:
            if layer.startswith("landlock") and layer not in landlock.layers(version):
                missing[layer] = why_not
        arch = seccomp.machine()
        code = seccomp.program(arch) if arch and "seccomp" not in missing else b""
        offsets = seccomp.pid_offsets(code)
        most = MOST_THREADS + threads_of(user)
        return cls(memory_bytes, cpu_seconds, missing, ruleset, code, offsets, most, group)

    @property
    def descriptors(self) -> set[int]:
        """Those that :meth:`enter` needs, and closes."""
        return {fd for fd in (self._group, self._ruleset) if fd is not None}

    def enter(self) -> tuple[str, ...]:
        """Bind every layer to this process for good; the names of those that bound.

        Call it in the forked child, while it has one thread and before any text of a student
        is compiled. The order matters: privileges go before the capabilities that drop them,
        and the filter comes last, since it denies all that the others need.
        """
        bound: list[str] = []

        def layer(name: str, bind: Callable[..., None], *args: object) -> None:
            if name not in self.missing and _bound(bind, *args):
                bound.append(name)

        filtered = bool(self._filter)
        if "rlimits" not in self.missing and bind(
            self.memory_bytes, self.cpu_seconds, forbid_processes=not filtered
        ):
            bound.append("rlimits")
        layer("no_new_privs", _prctl, _PR_SET_NO_NEW_PRIVS, 1)
        _drop_bounding_set()
        layer("uid", _become_nobody)
        if self._group is None:
            layer("threads", limit_threads, self._most_threads)
        else:  # the limit of a user does not bind root
            layer("threads", _join, self._group)
            os.close(self._group)
        layer("capabilities", _drop_capabilities)
        # After the change of user, which clears it.
        layer("parent_death", _prctl, _PR_SET_PDEATHSIG, _SIGKILL)
        if self._ruleset is not None:
            if _bound(landlock.restrict, self._ruleset):
                bound += [name for name in LAYERS if name.startswith("landlock")]
                bound = [name for name in bound if name not in self.missing]
            os.close(self._ruleset)
        if filtered:
            code = seccomp.patch_pid(self._filter, self._pid_offsets, os.getpid())
            layer("seccomp", seccomp.install, code)
        if "writes" in guarantees(bound):
            # torch's optimizers import its compiler, which makes its cache folder at once: name
            # one that is there, and honest code does not fail for want of a folder.
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.sep)
        return tuple(bound)

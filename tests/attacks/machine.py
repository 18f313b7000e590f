"""Attacks on the machine: memory, processes, files, the kernel (32, 34 to 43, 47, 48, 58, 59).

Bounded where they succeed: few processes that end by themselves, a megabyte of disk, memory
that is mapped and hardly touched, the harmless signal 0.
"""

from __future__ import annotations

from tests.attacks.attack import (
    KERNEL,
    MEMORY,
    PROCESSES,
    SIGNALS,
    WRITES,
    Attack,
    Off,
)
from tests.attacks.code import STEAL, TELL, TRY

# fmt: off
BOMBS = (
    Attack(32, "an expanded view that claims a terabyte", "capped before anything is allocated",
           last="""
def stolen(x): return torch.zeros(1).expand(1 << 38)
""" + STEAL, where=("attention.py",), says="elements, more than",
           off=Off("naive", "ran out of memory", by="expanded")),
    Attack(32, "a header that lies about sizes", "capped before anything is allocated", tag="b",
           where=("mlp.py",), first="""
import os, struct
real = os.write
os.write = lambda fd, data: real(fd, struct.pack("<Q", 1 << 40) + b"x" * 64) and len(data)
""", says="bytes; 1 to"),
    Attack(32, "wrong answers of millions of numbers, as many as may travel",
           "of another form than known mistakes, so their numbers are not looked at", tag="c",
           where=("attention.py",), last="""
def stolen(x): return torch.zeros(1 << 24, dtype=torch.bool)
""" + STEAL),
    Attack(32, "four times as many, its own limit taken away", "the judge counts once more",
           tag="d", where=("attention.py",), last="""
import sys
sys.modules["autograder.worker.values"].MAX_NUMEL = 1 << 40
def stolen(x): return torch.zeros(60 << 20, dtype=torch.bool)
""" + STEAL, says="elements, more than"),
    Attack(34, "two gigabytes of tensors more than allowed", "RLIMIT_AS", first=TRY + """
import torch
def hoard():
    kept = [torch.empty(1 << 26, dtype=torch.float32) for _ in range(8)]
    return "held %d" % sum(part.nbytes for part in kept)
tried(hoard)
""", last=TELL, needs=("memory",), off=Off("layers", "held 2147483648", MEMORY)),
    Attack(34, "a leak at every call", "RLIMIT_AS; what raises is the hand-in's own", tag="b",
           where=("attention.py",), last="""
kept = []
def stolen(x):
    kept.append(torch.empty(1 << 26))
    return torch.zeros_like(x)
""" + STEAL, needs=("memory",)),
    Attack(35, "forks again and again", "no new process (seccomp)", first=TRY + """
import os, time
def forks():
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            time.sleep(2); os._exit(0)
        children.append(child)
    return "forked %d" % len(children)
tried(forks)
""", last=TELL, where=("attention.py",), needs=("processes",),
           off=Off("layers", "forked 3", PROCESSES)),
    Attack(36, "six hundred threads", "RLIMIT_AS ends it; the worker dies with its hand-in",
           first=TRY + """
import threading, time
def threads():
    end = time.monotonic() + 1
    count = 0
    for _ in range(600):
        threading.Thread(target=lambda: time.sleep(max(0, end - time.monotonic())),
                         daemon=True).start()
        count += 1
    return "started %d threads" % count
tried(threads)
""", last=TELL, where=("attention.py",), needs=("memory",),
           off=Off("layers", "started 600 threads", MEMORY)),
    Attack(36, "threads left running", "the worker dies with its hand-in", tag="b", first="""
import threading, time
def run():
    end = time.monotonic() + 5
    while time.monotonic() < end: time.sleep(0.01)
for _ in range(8): threading.Thread(target=run).start()
"""),
    Attack(71, "three thousand threads on small stacks",
           "512 where workers have a user of their own; a fork that fails is asked for again",
           first="""
import threading, time
threading.stack_size(32 << 10)
end = time.monotonic() + 2
try:
    for _ in range(3000):
        threading.Thread(target=lambda: time.sleep(max(0, end - time.monotonic())),
                         daemon=True).start()
finally:
    threading.stack_size(0)
""", where=("attention.py",)),
    Attack(37, "a loop in C that ignores signals", "CPU deadline, then SIGKILL", first="""
import signal
for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
9 ** (9 ** 9)
""", where=("mlp.py",), off=Off("naive", "hangs", by="alarm")),
    Attack(38, "sleeps for ever", "wall deadline", where=("mlp.py",), slow=True, first="""
import time
time.sleep(10 ** 6)
""", off=Off("naive", "hangs", by="no_deadline")),
    Attack(38, "waits for itself", "wall deadline", where=("mlp.py",), slow=True, tag="b", first="""
import threading
lock = threading.Lock()
lock.acquire(); lock.acquire()
"""),
    Attack(39, "a regular expression without end", "CPU deadline", where=("mlp.py",), first="""
import re
re.match(r"(a|aa)+$", "a" * 64 + "b")
""", off=Off("naive", "hangs", by="no_deadline")),
    Attack(39, "recursion without end", "a RecursionError is named", tag="b",
           where=("attention.py",), last="""
def rotate_half(x): return rotate_half(x)
""", says="RecursionError"),
    Attack(39, "recursion without a limit", "a new worker; other checks go on", tag="c",
           where=("attention.py",), last="""
def stolen(x):
    import sys
    sys.setrecursionlimit(10 ** 9)
    def deeper(value): return deeper([value])
    return deeper(x)
def rotate_half(x): return stolen(x)
"""),
    Attack(40, "a segmentation fault", "a new worker; other checks go on", where=("attention.py",),
           last="""
import ctypes
def rotate_half(x): ctypes.string_at(0)
""", says="SIGSEGV", off=Off("border", "signal", by="test_rotate_half_values")),
    Attack(40, "abort", "a new worker; other checks go on", tag="b", where=("attention.py",),
           last="""
import os
def rotate_half(x): os.abort()
""", says="SIGABRT"),
    Attack(40, "an illegal instruction, by a signal to itself", "a new worker; other checks go on",
           tag="c", where=("attention.py",), last="""
import os, signal
def rotate_half(x): os.kill(os.getpid(), signal.SIGILL)
""", says="SIGILL"),
    Attack(41, "prints without end", "drained; 16 KiB are kept, 4 MiB end it", first="""
import os
""", where=("attention.py",), last="""
def rotate_half(x):
    for _ in range(400): os.write(2, b"flood " * 5000)
    return x
""", says="were printed", off=Off("border", "(flood ){100000}", by="test_rotate_half_values")),
    Attack(41, "prints a little less at every call", "what is kept is capped", tag="b",
           where=("attention.py",), first="import os", last="""
def stolen(x):
    for _ in range(60): os.write(1, b"flood " * 10000)
    return torch.zeros_like(x)
""" + STEAL),
)

PROCESSES_AND_FILES = (
    Attack(42, "a daemon that outlives the grading", "no new process; the worker cannot leave",
           first=TRY + """
import os, subprocess, sys, time
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for fd in range(64):
                if fd != null:
                    try: os.close(fd)
                    except OSError: pass
            time.sleep(8)
        os._exit(0)
    return "daemon started"
tried(daemon)
tried(lambda: subprocess.Popen(["sleep", "4"], start_new_session=True).pid)
tried(lambda: os.system("exit 7") == 7 << 8)
""", last=TELL, where=("attention.py",), needs=("processes",),
           off=Off("layers", "process", PROCESSES)),
    Attack(43, "signals its parent, its neighbours, everybody", "only itself can be signalled",
           first=TRY + """
import os
for pid in (os.getppid(), $VICTIM, -1, 0):
    tried(lambda: os.kill(pid, 0) or "reached %d" % pid)
tried(lambda: os.killpg(os.getpgid(os.getppid()), 0) or "reached a group")
""", last=TELL, needs=("signals",), off=Off("layers", "reached [1-9]", SIGNALS)),
    Attack(47, "writes results, changes modes", "no path can be written; RLIMIT_FSIZE is 0",
           first=TRY + """
import os
def write(path):
    with open(path, "w") as file: file.write('{"score": 100}')
    os.chmod(path, 0o777)
    return "wrote"
for path in ("$SHARED/results.json", "$ROOT/class.json", "class.json", "/tmp/class.json"):
    if path.startswith("$SHARED") or "results" in path: tried(lambda: write(path))
tried(lambda: os.chmod("$WORLD", 0o666) or "chmod")
tried(lambda: os.utime("$WORLD", (0, 0)) or "utime")
tried(lambda: os.symlink("$WORLD", "$SHARED/link") or "linked")
tried(lambda: os.rename("$WORLD", "$SHARED/taken") or "renamed")
tried(lambda: os.mkdir("$SHARED/made") or "made")
""", last=TELL, where=("attention.py",), needs=("writes",), off=Off("layers", "file", WRITES)),
    Attack(48, "fills disk, memfd, shared memory", "RLIMIT_FSIZE 0 and seccomp", first=TRY + """
import ctypes, os
def fill():
    with open("$SHARED/full", "wb") as file: return "filled %d" % file.write(bytes(1 << 20))
def memfd():
    descriptor = os.memfd_create("m"); os.ftruncate(descriptor, 1 << 31)
    return "memfd %d" % os.fstat(descriptor).st_size
def shared():
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(0, 4096, 0o600)
    if segment < 0: raise OSError(ctypes.get_errno(), "shmget")
    libc.shmctl(segment, 0, None)
    return "shmget %d" % segment
def posix():
    from _posixshmem import shm_open, shm_unlink
    os.close(shm_open("/of-a-test", os.O_CREAT | os.O_RDWR, 0o600)); shm_unlink("/of-a-test")
    return "shm_open"
for action in (fill, memfd, shared, posix): tried(action)
""", last=TELL, where=("attention.py",), needs=("writes", "memory"),
           off=Off("layers", "memfd 2147483648", WRITES)),
)

KERNEL_ATTACKS = (
    Attack(58, "io_uring, bpf, user namespaces, keys, userfaultfd", "denied by the filter",
           first=TRY + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = libc.syscall(*arguments)
    if result < 0: raise OSError(ctypes.get_errno(), name)
    return "%s answered" % name
zeros = ctypes.create_string_buffer(256)
tried(lambda: call("io_uring_setup", 425, 1, zeros))
tried(lambda: call("bpf", 321, 0, zeros, 48))
tried(lambda: call("unshare", 272, 0x10000000))
tried(lambda: call("keyctl", 250, 0, -4, 1))
tried(lambda: call("userfaultfd", 323, 1))
tried(lambda: call("personality", 135, 0xFFFFFFFF))
tried(lambda: call("perf_event_open", 298, zeros, 0, -1, -1, 0))
""", last=TELL, where=("attention.py",), needs=("privileges",),
           off=Off("layers", "(io_uring_setup|unshare|keyctl|personality) answered", KERNEL)),
    Attack(59, "raises limits, changes priority and affinity", "hard limits; denied by the filter",
           first=TRY + """
import os, resource
def limit():
    vast = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (vast, vast))
    return "no limit"
tried(limit)
tried(lambda: "nice %d" % os.nice(1))
tried(lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}) or "affinity set")
""", last=TELL, where=("attention.py",), needs=("privileges",),
           off=Off("layers", "nice 1|affinity set", KERNEL)),
)
ATTACKS = (*BOMBS, *PROCESSES_AND_FILES, *KERNEL_ATTACKS)
# fmt: on

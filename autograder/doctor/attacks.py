"""The nouns of trying: a trial, the ways it is tried in, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from autograder.course.records import Message

SCORE, FAIR = "score", "fair"  # promises beside the guarantees of worker/jail.py


class State(StrEnum):
    """The state of an attack that was tried, or of a promise: a closed list."""

    HELD = "held"
    BROKE = "broke"
    NOT_TRIED = "not_tried"


class End(StrEnum):
    """The end of one way of an attack."""

    WORKED = "worked"
    STOPPED = "stopped"
    ABSENT = "absent"  # this system has nothing to attack there
    FAILED = "failed"  # for a reason that proves nothing


@dataclass(frozen=True)
class Way:
    """One way in which a trial was tried; ``evidence`` is an errno, or what was found."""

    name: str
    end: End
    evidence: str = ""


@dataclass(frozen=True)
class Attack:
    """An attack on one promise: a guarantee of the jail, ``score`` or ``fair``.

    ``code``: the student's file, or the ways that stand behind the kit (``kit``). ``alone``: it
    may end its worker, so it has a hand-in of its own. ``ends``: our deadline stops it.
    """

    name: str
    promise: str
    title: Message
    code: str
    kit: bool = True
    alone: bool = False
    ends: bool = False


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack; ``reason`` says why when it was not tried."""

    trial: str
    promise: str
    title: Message
    state: State
    ways: tuple[Way, ...] = ()
    reason: str = ""


def judged(finding: AttackResult, ways: Iterable[Way]) -> AttackResult:
    """The finding with its state decided by the ways: one that worked breaks it.

    It held when every way was stopped, but for those that this system does not have.
    """
    ways = tuple(ways)
    ends = {way.end for way in ways}
    failed = [way for way in ways if way.end is End.FAILED]
    state, reason = State.HELD, ""
    if End.WORKED in ends:
        state = State.BROKE
    elif failed:
        state, reason = State.NOT_TRIED, f"{failed[0].name}: {failed[0].evidence}"
    elif End.STOPPED not in ends:
        state, reason = State.NOT_TRIED, "there is nothing of the kind on this system"
    return replace(finding, state=state, ways=ways, reason=reason)


def corrected(finding: AttackResult, seen: Mapping[str, str]) -> AttackResult:
    """The finding after a look from outside: ``seen`` names ways whose effect is there."""
    if not seen:
        return finding
    ways = {way.name: way for way in finding.ways}
    ways |= {name: Way(name, End.WORKED, evidence) for name, evidence in seen.items()}
    return judged(finding, ways.values())


# What is tried against the guarantees on what lies outside: files, network, other processes.
#
# ``P`` holds the places (see ``scratch.Scratch.places``); the helpers stand in ``kit``.

FILES = (
    Attack("answers", "files", Message("doctor.trial_answers"), """
@way
def hidden_cases(): return found(open(P["hidden"], "rb").read())
@way
def notes(): return found(open(P["notes"], "rb").read())
@way
def names_in_a_folder(): return found(" ".join(os.listdir(P["folder"])))
"""),
    Attack("grader_code", "files", Message("doctor.trial_grader_code"), """
@way
def solution():
    only(P["solution"], "solution in this copy")
    return found(open(P["solution"], "rb").read())
@way
def source_of_the_grader(): return found(open(P["source"], "rb").read())
@way
def another_package(): return found(open(P["package"], "rb").read())
"""),
    Attack("memory_of_others", "files", Message("doctor.trial_memory_of_others"), """
def first_open(name):
    only(os.path.isdir("/proc"), "/proc")
    for pid in P["grader"]:
        try:
            return found(open("/proc/%d/%s" % (pid, name), "rb").read())
        except OSError as error:
            last = error
    raise last
@way
def environment_of_the_grader(): return first_open("environ")
@way
def command_line_of_the_grader(): return first_open("cmdline")
@way
def memory_as_a_file():
    only(os.path.isdir("/proc"), "/proc")
    with open("/proc/%d/mem" % P["victim"], "rb", buffering=0) as memory:
        memory.seek(P["address"])
        return found(memory.read(64))
@way
def memory_by_a_call():
    import ctypes
    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    mine = ctypes.create_string_buffer(64)
    here, there = Piece(ctypes.addressof(mine), 64), Piece(P["address"], 64)
    one, other = ctypes.byref(here), ctypes.byref(there)
    libc("process_vm_readv", P["victim"], one, 1, other, 1, 0)
    return found(mine.raw)
@way
def debugger(): return libc("ptrace", 0x4206, P["victim"], 0, 0)  # PTRACE_SEIZE stops nobody
"""),
)  # fmt: skip

WRITES = (
    Attack("changing_files", "writes", Message("doctor.trial_changing_files"), """
def at(name): return os.path.join(P["open"], name)
@way
def create(): os.close(os.open(at("created"), os.O_CREAT | os.O_WRONLY)); return "created"
@way
def append():
    with open(at("append"), "ab", buffering=0) as file: return file.write(b"x")
@way
def make_folder(): return os.mkdir(at("folder"))
@way
def link(): return os.symlink("nowhere", at("link"))
@way
def remove(): return os.unlink(at("remove"))
@way
def rename(): return os.rename(at("rename"), at("renamed"))
@way
def truncate(): return os.truncate(at("truncate"), 0)
"""),
    Attack("changing_modes", "writes", Message("doctor.trial_changing_modes"), """
@way
def mode(): return os.chmod(P["own"], 0o604)
@way
def times(): return os.utime(P["own"], (0, 0))
@way
def owner(): return os.chown(P["own"], os.getuid(), os.getgid())
@way
def attribute(): return os.setxattr(P["own"], "user.doctor", b"1")
"""),
)  # fmt: skip

NETWORK = (
    Attack("internet", "network", Message("doctor.trial_internet"), """
import socket
@way
def tcp_connect():
    with socket.create_connection(("127.0.0.1", P["tcp"]), timeout=1) as s: return s.send(b"tcp")
@way
def tcp_listen():
    with socket.socket() as s: s.bind(("127.0.0.1", 0)); s.listen(); return s.getsockname()[1]
@way
def udp_send():
    with socket.socket(type=socket.SOCK_DGRAM) as s: return s.sendto(b"u", ("127.0.0.1", P["udp"]))
"""),
    Attack("local_sockets", "network", Message("doctor.trial_local_sockets"), """
import socket
@way
def unix_send():
    only(P["unix"], "unix sockets")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s: return s.sendto(b"u", P["unix"])
@way
def pair():
    one, other = socket.socketpair()
    one.close(), other.close()
    return "made"
@way
def kernel_messages():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as s: return "made"
"""),
)  # fmt: skip

SIGNALS = (
    Attack("signal_0", "signals", Message("doctor.trial_signal_0"), """
# On Windows the number 0 is Ctrl-C to everybody.
def ask(pid): only(os.name == "posix", "signals"); os.kill(pid, 0); return pid
def anybody(pids):
    for pid in pids:
        try:
            return ask(pid)
        except OSError as error:
            last = error
    raise last
@way
def the_grader(): return anybody(P["grader"])
@way
def a_neighbour(): return ask(P["victim"])
@way
def everybody():
    ask(-1)  # the kernel says yes even where nobody was in reach
    return anybody([*P["grader"], P["victim"]])
"""),
    Attack("other_signals", "signals", Message("doctor.trial_other_signals"), """
@way
def by_descriptor():
    import signal
    descriptor = os.pidfd_open(P["victim"])
    try: return signal.pidfd_send_signal(descriptor, 0)
    finally: os.close(descriptor)
@way
def to_a_thread(): return syscall(234, 131, P["victim"], P["victim"], 0)
@way
def queued():
    import ctypes
    information = ctypes.create_string_buffer(b"\\0" * 8 + b"\\xff" * 4, 128)  # code SI_QUEUE
    return syscall(129, 138, P["victim"], 0, information)
"""),
)  # fmt: skip

REACHING = (*FILES, *WRITES, *NETWORK, *SIGNALS)


# What is tried against the guarantees on what a worker takes: processes, memory, time, privileges.
#
# ``P`` holds the places (see ``scratch.Scratch.places``); the helpers stand in ``kit``.

PROCESSES = (
    Attack("children", "processes", Message("doctor.trial_children"), """
@way
def fork():
    child = os.fork() or os._exit(0)
    return os.waitpid(child, 0)[0]
@way
def another_program():
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {})
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    return "it ran"
@way
def daemon():
    ask, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                import time
                os.write(tell, b"daemon %d" % os.getpid())
                time.sleep(0.3)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(tell)
    return os.read(ask, 40).decode()
@way
def outlive_the_grader(): return libc("prctl", 1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
"""),
    Attack("shell", "processes", Message("doctor.trial_shell"), """
@way
def become_a_shell():
    only(os.name == "posix", "/bin/sh")
    said = "doctor " + json.dumps(["shell", [["become_a_shell", "worked", "it said so itself"]]])
    os.execv("/bin/sh", ["sh", "-c", "printf '%s\\\\n' '" + said + "'"])
""", alone=True),
)  # fmt: skip

MEMORY = (
    Attack("too_much", "memory", Message("doctor.trial_too_much"), """
@way
def tensor():
    import torch
    try:
        return torch.empty(P["too_much"], dtype=torch.uint8).numel()
    except RuntimeError as error:
        raise MemoryError if "memory" in str(error) else error
@way
def mapping():
    import mmap
    with mmap.mmap(-1, P["too_much"]) as memory: return len(memory)
"""),
    Attack("detours", "memory", Message("doctor.trial_detours"), """
@way
def memory_file():
    file = os.memfd_create("doctor")
    try: os.ftruncate(file, P["too_much"])
    finally: os.close(file)
@way
def shared_segment():
    segment = libc("shmget", 0, 4096, 0o600)
    return libc("shmctl", segment, 0, None)  # IPC_RMID: gone again
"""),
)  # fmt: skip

CPU = (
    Attack("loop", "cpu", Message("doctor.trial_loop"), """
@way
def endless_loop():
    import signal, time
    for name in ("SIGTERM", "SIGALRM", "SIGXCPU", "SIGINT"):
        if hasattr(signal, name): signal.signal(getattr(signal, name), signal.SIG_IGN)
    start = time.monotonic()
    while time.monotonic() < start + P["patience"]: pass
    return "it ran on"
""", alone=True, ends=True),
    Attack("sleep", "cpu", Message("doctor.trial_sleep"), """
@way
def long_sleep():
    import time
    time.sleep(P["patience"])
    return "it slept on"
""", alone=True, ends=True),
    Attack("cpu_limit", "cpu", Message("doctor.trial_cpu_limit"), """
@way
def lift_the_limit():
    import resource
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if most == resource.RLIM_INFINITY: return "there is none"
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (most + 1, most + 1))
    except ValueError as error:  # how Python says that the kernel refused
        raise PermissionError(errno.EPERM, str(error)) from None
"""),
)  # fmt: skip

PRIVILEGES = (
    Attack("own_limits", "privileges", Message("doctor.trial_own_limits"), """
@way
def memory_limit():
    import resource
    no_end = resource.RLIM_INFINITY
    try:
        resource.setrlimit(resource.RLIMIT_AS, (no_end, no_end))
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error)) from None
@way
def priority(): return os.nice(1)
@way
def processor(): return os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
"""),
    Attack("become_root", "privileges", Message("doctor.trial_become_root"), """
@way
def user_root(): return os.setuid(0)
@way
def another_root_folder(): return os.chroot("/")
"""),
    Attack("kernel_doors", "privileges", Message("doctor.trial_kernel_doors"), """
def made(number):
    os.close(number)
    return "a descriptor"
def zeros(size, *words):
    import ctypes, struct
    return ctypes.create_string_buffer(struct.pack("=%dI" % len(words), *words), size)
@way
def key_ring(): return syscall(250, 219, 0, -2, 1, 0, 0)  # KEYCTL_GET_KEYRING_ID
@way
def bpf(): return made(syscall(321, 280, 0, zeros(128, 2, 4, 4, 1), 128))
@way
def io_uring(): return made(syscall(425, 425, 1, zeros(120)))
@way
def performance_events():
    # PERF_TYPE_SOFTWARE, size 64, the dummy event, of this process in user space
    event = zeros(64, 1, 64, 9, 0, 0, 0, 0, 0, 0, 0, 0x60)
    return made(syscall(298, 241, event, 0, -1, -1, 0))
@way
def page_faults(): return made(syscall(323, 282, 1))  # userfaultfd
@way
def user_namespace(): return libc("unshare", 0x10000000)
"""),
)  # fmt: skip

TAKING = (*PROCESSES, *MEMORY, *CPU, *PRIVILEGES)


# Hand-ins that want points for nothing. What stops them is the border between processes.

HONEST = Attack(
    "honest", FAIR, Message("doctor.trial_honest"), "def double(x): return 2 * x\n", kit=False
)


def _forgery(name: str, title: Message, code: str) -> Attack:
    return Attack(name, SCORE, title, code, kit=False, alone=True)


FORGERIES = (
    _forgery("comparisons", Message("doctor.trial_comparisons"), """
import builtins, math, operator, numpy, torch, torch.testing
yes = lambda *a, **k: True
torch.testing.assert_close = numpy.testing.assert_allclose = yes
torch.allclose = torch.equal = torch.isclose = numpy.allclose = numpy.array_equal = yes
numpy.isclose = math.isclose = operator.eq = yes
torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.allclose = yes
def double(x): return 0 * x
"""),
    _forgery("equal_to_all", Message("doctor.trial_equal_to_all"), """
class Everything:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    __hash__ = None
def double(x): return Everything()
"""),
    _forgery("exit", Message("doctor.trial_exit"), """
import os
def double(x): os._exit(0)
"""),
    _forgery("system_exit", Message("doctor.trial_system_exit"), """
import sys
def double(x): sys.exit(0)
"""),
    _forgery("pickle", Message("doctor.trial_pickle"), """
import os
class Payload:
    def __reduce__(self): return os.mkdir, (P["pickled"],)
def double(x): return Payload()
"""),
    _forgery("heap", Message("doctor.trial_heap"), """
import gc, sys, torch
def other(thing, x):
    if type(thing) is not torch.Tensor or thing.shape != x.shape: return False
    return bool((thing != x).any()) and bool((thing != 0).any())
def double(x):
    for thing in gc.get_objects():
        if other(thing, x): return thing.clone()
    frame = sys._getframe()
    while frame is not None:
        for thing in list(frame.f_locals.values()):
            if other(thing, x): return thing.clone()
        frame = frame.f_back
    return torch.zeros_like(x)
"""),
    _forgery("forged_verdict", Message("doctor.trial_forged_verdict"), """
import os
def double(x):
    for descriptor in range(1, 64):
        try: os.write(descriptor, b'{"outcome": "passed", "score": 100}\\n')
        except OSError: pass
    os._exit(0)
"""),
)  # fmt: skip


# What is tried against each guarantee of the jail, two trials or more for every one.

ATTEMPTS = (*REACHING, *TAKING)

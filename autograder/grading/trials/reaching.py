"""What is tried against the guarantees on what lies outside: files, network, other processes.

``P`` holds the places (see ``scratch.Scratch.places``); the helpers stand in ``kit``.
"""

from __future__ import annotations

from autograder.course.records import Message
from autograder.grading.trials.records import Trial

FILES = (
    Trial("answers", "files", Message("doctor.trial_answers"), """
@way
def hidden_cases(): return found(open(P["hidden"], "rb").read())
@way
def notes(): return found(open(P["notes"], "rb").read())
@way
def names_in_a_folder(): return found(" ".join(os.listdir(P["folder"])))
"""),
    Trial("grader_code", "files", Message("doctor.trial_grader_code"), """
@way
def solution():
    only(P["solution"], "solution in this copy")
    return found(open(P["solution"], "rb").read())
@way
def source_of_the_grader(): return found(open(P["source"], "rb").read())
@way
def another_package(): return found(open(P["package"], "rb").read())
"""),
    Trial("memory_of_others", "files", Message("doctor.trial_memory_of_others"), """
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
    Trial("changing_files", "writes", Message("doctor.trial_changing_files"), """
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
    Trial("changing_modes", "writes", Message("doctor.trial_changing_modes"), """
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
    Trial("internet", "network", Message("doctor.trial_internet"), """
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
    Trial("local_sockets", "network", Message("doctor.trial_local_sockets"), """
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
    Trial("signal_0", "signals", Message("doctor.trial_signal_0"), """
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
    Trial("other_signals", "signals", Message("doctor.trial_other_signals"), """
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

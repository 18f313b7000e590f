"""What is tried against the guarantees on what a worker takes: processes, memory, time, privileges.

``P`` holds the places (see ``scratch.Scratch.places``); the helpers stand in ``kit``.
"""

from __future__ import annotations

from autograder.course.records import Message
from autograder.grading.trials.records import Trial

PROCESSES = (
    Trial("children", "processes", Message("doctor.trial_children"), """
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
    Trial("shell", "processes", Message("doctor.trial_shell"), """
@way
def become_a_shell():
    only(os.name == "posix", "/bin/sh")
    said = "doctor " + json.dumps(["shell", [["become_a_shell", "worked", "it said so itself"]]])
    os.execv("/bin/sh", ["sh", "-c", "printf '%s\\\\n' '" + said + "'"])
""", alone=True),
)  # fmt: skip

MEMORY = (
    Trial("too_much", "memory", Message("doctor.trial_too_much"), """
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
    Trial("detours", "memory", Message("doctor.trial_detours"), """
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
    Trial("loop", "cpu", Message("doctor.trial_loop"), """
@way
def endless_loop():
    import signal, time
    for name in ("SIGTERM", "SIGALRM", "SIGXCPU", "SIGINT"):
        if hasattr(signal, name): signal.signal(getattr(signal, name), signal.SIG_IGN)
    start = time.monotonic()
    while time.monotonic() < start + P["patience"]: pass
    return "it ran on"
""", alone=True, ends=True),
    Trial("sleep", "cpu", Message("doctor.trial_sleep"), """
@way
def long_sleep():
    import time
    time.sleep(P["patience"])
    return "it slept on"
""", alone=True, ends=True),
    Trial("cpu_limit", "cpu", Message("doctor.trial_cpu_limit"), """
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
    Trial("own_limits", "privileges", Message("doctor.trial_own_limits"), """
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
    Trial("become_root", "privileges", Message("doctor.trial_become_root"), """
@way
def user_root(): return os.setuid(0)
@way
def another_root_folder(): return os.chroot("/")
"""),
    Trial("kernel_doors", "privileges", Message("doctor.trial_kernel_doors"), """
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

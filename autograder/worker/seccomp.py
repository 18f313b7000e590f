"""A seccomp allowlist for a process that computes, reads files and answers over its pipes.

The filter is classic BPF, built once as bytes and installed in the forked child. What it does
not name fails with EPERM: sockets, new processes, ptrace, shared memory, memfd, io_uring, bpf,
namespaces, key rings, mounts, mode and owner changes, raised limits, priorities, affinity.
Sources: the kernel's Documentation/userspace-api/seccomp_filter.rst and linux/filter.h;
system-call numbers from asm/unistd_64.h (x86_64) and asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
if _LIBC is not None:
    _LIBC.syscall.restype = ctypes.c_long
    _LIBC.syscall.argtypes = [ctypes.c_long] * 7

# Name, number on x86_64, number on aarch64 ("-": the architecture has no such call).
_TABLE = """
read 0 63              write 1 64              open 2 -                close 3 57
stat 4 -               fstat 5 80              lstat 6 -               poll 7 -
lseek 8 62             mmap 9 222              mprotect 10 226         munmap 11 215
brk 12 214             rt_sigaction 13 134     rt_sigprocmask 14 135   rt_sigreturn 15 139
ioctl 16 29            pread64 17 67           readv 19 65             writev 20 66
access 21 -            select 23 -             sched_yield 24 124      mremap 25 216
madvise 28 233         dup 32 23               dup2 33 -               pause 34 -
nanosleep 35 101       getitimer 36 102        alarm 37 -              setitimer 38 103
getpid 39 172          clone 56 220            exit 60 93              kill 62 129
uname 63 160           fcntl 72 25             getcwd 79 17            readlink 89 -
gettimeofday 96 169    getrlimit 97 163        getrusage 98 165        sysinfo 99 179
times 100 153          getuid 102 174          getgid 104 176          geteuid 107 175
getegid 108 177        getppid 110 173         getpgrp 111 -           getgroups 115 158
getresuid 118 148      getresgid 120 150       getpgid 121 155         getsid 124 156
rt_sigpending 127 136  rt_sigtimedwait 128 137 rt_sigsuspend 130 133   sigaltstack 131 132
capset 126 91          prctl 157 167           arch_prctl 158 -        gettid 186 178
time 201 -             futex 202 98            sched_getaffinity 204 123
getdents64 217 61      set_tid_address 218 96  restart_syscall 219 128 clock_gettime 228 113
clock_getres 229 114   clock_nanosleep 230 115 exit_group 231 94       tgkill 234 131
openat 257 56          newfstatat 262 79       readlinkat 267 78       faccessat 269 48
pselect6 270 72        ppoll 271 73            set_robust_list 273 99  get_robust_list 274 100
dup3 292 24            prlimit64 302 261       getcpu 309 168          seccomp 317 277
getrandom 318 278      statx 332 291           rseq 334 293            clone3 435 435
close_range 436 436    faccessat2 439 439      landlock_create_ruleset 444 444
landlock_add_rule 445 445                      landlock_restrict_self 446 446
"""
_WORDS = _TABLE.split()
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    name: (None if x86 == "-" else int(x86), None if arm == "-" else int(arm))
    for name, x86, arm in zip(_WORDS[::3], _WORDS[1::3], _WORDS[2::3], strict=True)
}
_COLUMN = {"x86_64": 0, "aarch64": 1}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Calls that only the setup outside the filter makes; the filtered process must not have them.
_SETUP_ONLY = frozenset(
    ("seccomp", "capset", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
)


@dataclass(frozen=True)
class _Rule:
    """A condition for a system call, judged on the low 32 bits of one argument.

    `one_of`: the argument equals one of these (empty: any value will do); `none_of`: no bit of
    this mask is set; `all_of`: this single bit is set; `null`: all 64 bits are zero;
    `own_pid`: it equals the pid that `patch_pid` writes in.
    """

    argument: int
    one_of: tuple[int, ...] = ()
    none_of: int = 0
    all_of: int = 0
    null: bool = False
    own_pid: bool = False


_O_WRITING = 0o3 | 0o100 | 0o1000  # O_ACCMODE, O_CREAT, O_TRUNC; O_TMPFILE needs O_RDWR
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020080  # NEWNS, CGROUP, UTS, IPC, USER, PID, NET, TIME
_RULES: dict[str, _Rule] = {
    # Without Landlock this is what keeps files from being written.
    "open": _Rule(1, none_of=_O_WRITING),
    "openat": _Rule(2, none_of=_O_WRITING),
    "clone": _Rule(0, all_of=_CLONE_THREAD, none_of=_CLONE_NEW),
    "kill": _Rule(0, own_pid=True),
    "tgkill": _Rule(0, own_pid=True),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC. F_SETFL and F_SETOWN would reach the
    # pipes' other owners (O_NONBLOCK is shared) or send them signals.
    "fcntl": _Rule(1, one_of=(0, 1, 2, 3, 1030)),
    # TCGETS, FIONREAD, FIONCLEX, FIOCLEX: CPython asks these of every file it opens or dups.
    "ioctl": _Rule(1, one_of=(0x5401, 0x541B, 0x5450, 0x5451)),
    "prctl": _Rule(0, one_of=(15, 16)),  # PR_SET_NAME, PR_GET_NAME
    # ARCH_GET_XCOMP_SUPP, _GET_XCOMP_PERM, _REQ_XCOMP_PERM: AMX kernels ask leave to use tiles.
    "arch_prctl": _Rule(0, one_of=(0x1021, 0x1022, 0x1023)),
    "prlimit64": _Rule(2, null=True),  # reading a limit, never setting one
}
# glibc falls back from clone3 (whose flags a filter cannot read) to clone only on ENOSYS.
_OTHER_ERRNO = {"clone3": errno.ENOSYS}

_LD_W_ABS, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_DENY = _ERRNO | errno.EPERM
_X32_BIT = 0x40000000
_INSTRUCTION = struct.Struct("=HBBI")
# A value no pid can have; patch_pid finds the places by it.
_PID_MARK = 0xFFFF_FF01
_SET_MODE_FILTER = 1


@functools.cache
def machine() -> str | None:
    """This interpreter's architecture if there are numbers for it (64-bit Linux), else None."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    name = os.uname().machine
    return name if name in _COLUMN else None


def syscall(name: str, *args: int) -> int:
    """Make one system call from the table; raises OSError with the kernel's errno."""
    arch = machine()
    number = NUMBERS[name][_COLUMN[arch]] if arch else None
    if number is None or _LIBC is None:
        raise OSError(errno.ENOSYS, f"{name}: no such system call here")
    result = int(_LIBC.syscall(number, *args, *(0,) * (6 - len(args))))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)


def _block(rule: _Rule) -> bytes:
    """The instructions that decide one call by its argument; every path returns."""
    low = 16 + 8 * rule.argument  # offset in struct seccomp_data; both machines: little endian
    ops = [_op(_LD_W_ABS, low)]
    if rule.none_of:
        ops += [_op(_JSET, rule.none_of, 0, 1), _op(_RET, _DENY)]
    if rule.all_of:
        ops += [_op(_JSET, rule.all_of, 1, 0), _op(_RET, _DENY)]
    if rule.null:
        ops += [_op(_JEQ, 0, 1, 0), _op(_RET, _DENY)]
        ops += [_op(_LD_W_ABS, low + 4), _op(_JEQ, 0, 1, 0), _op(_RET, _DENY)]
    accepted = (_PID_MARK,) if rule.own_pid else rule.one_of
    for value in accepted:
        ops += [_op(_JEQ, value, 0, 1), _op(_RET, _ALLOW)]
    ops.append(_op(_RET, _DENY if accepted else _ALLOW))
    return b"".join(ops)


def program(arch: str) -> bytes:
    """The BPF program for "x86_64" or "aarch64", 8 bytes an instruction, pid still to patch."""
    parts = [
        _op(_LD_W_ABS, 4),
        _op(_JEQ, _AUDIT_ARCH[arch], 1, 0),
        _op(_RET, _KILL),
        _op(_LD_W_ABS, 0),
        _op(_JGE, _X32_BIT, 0, 1),
        _op(_RET, _KILL),
    ]
    for name, numbers in NUMBERS.items():
        number = numbers[_COLUMN[arch]]
        if number is None or name in _SETUP_ONLY:
            continue
        if name in _OTHER_ERRNO:
            block = _op(_RET, _ERRNO | _OTHER_ERRNO[name])
        else:
            block = _block(_RULES[name]) if name in _RULES else _op(_RET, _ALLOW)
        parts += [_op(_JEQ, number, 0, len(block) // _INSTRUCTION.size), block]
    return b"".join((*parts, _op(_RET, _DENY)))


def pid_offsets(code: bytes) -> tuple[int, ...]:
    """Byte offsets of the constants that must become the child's pid (see `patch_pid`)."""
    return tuple(
        offset + 4
        for offset in range(0, len(code), _INSTRUCTION.size)
        if _INSTRUCTION.unpack_from(code, offset)[3] == _PID_MARK
    )


def patch_pid(code: bytes, offsets: Sequence[int], pid: int) -> bytearray:
    """A copy of the program in which kill and tgkill reach `pid` and nobody else."""
    patched = bytearray(code)
    for offset in offsets:
        struct.pack_into("=I", patched, offset, pid)
    return patched


def unavailable() -> str | None:
    """Why no filter can be installed here, or None if one can."""
    if machine() is None:
        return "seccomp filters are written for Linux on x86_64 and aarch64 only"
    action = ctypes.c_uint32(_KILL)
    try:  # SECCOMP_GET_ACTION_AVAIL (2) asks without changing anything
        syscall("seccomp", 2, 0, ctypes.addressof(action))
    except OSError as error:
        return f"the kernel offers no seccomp filter ({error.strerror})"
    return None


def install(code: bytearray) -> None:
    """Bind the filter to this thread for good; needs no_new_privs. Raises OSError."""
    filter_ = (ctypes.c_char * len(code)).from_buffer(code)
    # struct sock_fprog: unsigned short length, then an aligned pointer.
    header = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(filter_))
    )
    syscall("seccomp", _SET_MODE_FILTER, 0, ctypes.addressof(header))

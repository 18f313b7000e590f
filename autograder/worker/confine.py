"""Runs a program of the system on input that nobody trusts: ``confine`` becomes it.

For unpackers: native code that parses what students send. It gets no environment, no privileges
where we have any to give up, limits of CPU time and memory, no file to write, and on Linux with
Landlock nothing to read but the system's own programs and libraries. What a system lacks is
left out: the caller also caps time and output.
"""

from __future__ import annotations

import ctypes
import os
import sys

from autograder.worker import jail, landlock

_NOBODY = 65534
_PR_SET_NO_NEW_PRIVS = 38
# Where systems keep programs and what these load; a program elsewhere has its libraries anywhere.
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")


def main(argv: list[str]) -> None:
    """``… ROOT CPU_SECONDS MEMORY_BYTES PROGRAM ARGUMENT…``: be the program, confined."""
    if sys.platform == "win32":
        raise SystemExit("confine needs a POSIX system")
    cpu, memory, program, *arguments = argv[2:]
    jail.bind(int(memory), int(cpu), forbid_processes=False)
    rules = _rules(program)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if rules is not None:
            landlock.restrict(rules)
    os.execve(program, [program, *arguments], {"LC_ALL": "C.UTF-8"})


def _rules(program: str) -> int | None:
    """The ruleset, or None where Landlock is absent or the program is not the system's."""
    if not os.path.realpath(program).startswith(("/usr/bin/", "/bin/")):
        return None
    try:
        return landlock.build((), (), executable=_SYSTEM)
    except OSError:
        return None

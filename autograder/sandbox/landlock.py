"""Landlock: the files a process may read, and nothing else of the file system.

A ruleset is built once as a file descriptor and bound in the forked child. It handles every
right of the kernel's ABI (up to 7), so what no rule grants is denied: reading elsewhere, all
writing, creating, removing, linking and executing; from ABI 4 also TCP bind and connect, from
ABI 6 abstract unix sockets and signals to processes outside. A bound process can also no
longer ptrace, or read the memory of, a process outside its domain.
Source: the kernel's Documentation/userspace-api/landlock.rst and linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable

from autograder.sandbox.seccomp import syscall

EXECUTE, READ_FILE, READ_DIR = 1 << 0, 1 << 2, 1 << 3
_ABI_NETWORK, _ABI_SCOPE = 4, 6
# Bits of the file rights that each ABI added: 13 at first, REFER, TRUNCATE, IOCTL_DEV.
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_RIGHTS = 0b11  # bind and connect TCP
_SCOPES = 0b11  # abstract unix sockets, signals
_RULE_PATH_BENEATH = 1
_VERSION_FLAG = 1


def abi() -> int:
    """The kernel's Landlock ABI, 0 where Landlock is absent or switched off."""
    try:
        return syscall("landlock_create_ruleset", 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


def layers(version: int) -> tuple[str, ...]:
    """What a ruleset of this ABI binds, by the names that `jail.LAYERS` uses."""
    names = ("landlock_files", "landlock_network", "landlock_scope")
    return names[: (version >= 1) + (version >= _ABI_NETWORK) + (version >= _ABI_SCOPE)]


def _attributes(version: int) -> bytes:
    """struct landlock_ruleset_attr, as long as this ABI knows it."""
    words = [(1 << _FS_BITS[min(version, max(_FS_BITS))]) - 1]
    if version >= _ABI_NETWORK:
        words.append(_NET_RIGHTS)
    if version >= _ABI_SCOPE:
        words.append(_SCOPES)
    return struct.pack(f"={len(words)}Q", *words)


def _grant(ruleset: int, path: str, rights: int) -> None:
    """Add one rule; a path that is not there needs none."""
    if sys.platform != "linux":
        return
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= ~READ_DIR  # the kernel refuses directory rights on a file
        if rights:
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, fd))
            address = ctypes.addressof(rule)
            syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, address, 0)
    finally:
        os.close(fd)


def build(readable: Iterable[str], listable: Iterable[str], executable: Iterable[str] = ()) -> int:
    """A ruleset's descriptor (close-on-exec): `readable` trees, and `listable` names only.

    `executable` trees may be read, and programs in them run.

    Listing is granted to the import roots, whose entries are readable one by one: the import
    system lists a root before it opens a file in it. Raises OSError where Landlock is absent.
    """
    attributes = _attributes(abi() or 1)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    address = ctypes.addressof(buffer)
    ruleset = syscall("landlock_create_ruleset", address, len(attributes), 0)
    try:
        for path in readable:
            _grant(ruleset, path, READ_FILE | READ_DIR)
        for path in listable:
            _grant(ruleset, path, READ_DIR)
        for path in executable:
            _grant(ruleset, path, EXECUTE | READ_FILE | READ_DIR)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def restrict(ruleset: int) -> None:
    """Bind this thread, and all it will start, to the ruleset; needs no_new_privs. OSError."""
    syscall("landlock_restrict_self", ruleset, 0)

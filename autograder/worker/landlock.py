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
import glob
import importlib.util
import os
import stat
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator

from autograder.worker.seccomp import syscall

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
    """Return what a ruleset of this ABI binds, by the names that `jail.LAYERS` uses."""
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


# What a worker may read: Python, torch, numpy and what torch imports later, nothing else.
#
# Landlock grants whole trees and cannot take anything away again, so site-packages is never
# named: the standard library is listed entry by entry, each package by its own path. A directory
# that holds other packages too (they could be the answer to a lab) stays closed.

# torch and numpy, the pure-Python packages that torch imports on first use, and einops.
_PACKAGES = (
    "torch", "torchgen", "functorch", "numpy", "typing_extensions", "sympy", "mpmath",
    "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "safetensors", "packaging",
    "optree", "opt_einsum", "einops", "tqdm", "yaml", "tzdata", "triton",
)  # fmt: skip
# Not the library proper: other packages, the interpreter's own tests, programs with windows.
_NOT_LIBRARY = frozenset(
    ("site-packages", "dist-packages", "test", "idlelib", "ensurepip", "turtledemo", "lib2to3")
)
_SYSTEM = (
    "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
    "/dev/null", "/dev/urandom", "/proc/cpuinfo",
    # os.cpu_count and the thread pools of torch ask these how many processors there are.
    "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
)  # fmt: skip


def _standard_library() -> Iterator[str]:
    """Every entry of the standard library; in a virtual environment that of the base Python."""
    root = sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})
    for entry in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        if entry not in _NOT_LIBRARY and not entry.startswith("config-"):
            yield os.path.join(root, entry)


def _package(name: str) -> Iterator[str]:
    """The paths of one importable package or module, found without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    if spec.submodule_search_locations:
        for location in spec.submodule_search_locations:
            yield location
            # Wheels put bundled shared libraries beside the package: numpy.libs.
            yield f"{location}.libs"
    elif spec.origin and spec.has_location:
        yield spec.origin
        yield importlib.util.cache_from_source(spec.origin)


def _shared_libraries() -> Iterator[str]:
    """System library folders, libpython and its neighbours, and what is mapped right now."""
    for pattern in ("/lib/*-linux-gnu", "/usr/lib/*-linux-gnu"):
        yield from glob.glob(pattern)
    own = (sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib"))
    for folder in ("/lib64", "/usr/lib64", *filter(None, own)):
        # File by file: on many systems this folder also holds pythonX.Y/site-packages.
        yield from glob.glob(os.path.join(folder, "*.so*"))
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            fields = (line.rstrip("\n").split(None, 5) for line in maps)
            yield from (f[5] for f in fields if len(f) == 6 and ".so" in os.path.basename(f[5]))
    except OSError:
        return  # not Linux


def _existing(paths: Iterable[str]) -> tuple[str, ...]:
    """Sorted, each once, without what is missing or lies in a tree that is named as well."""
    found: list[str] = []
    for path in sorted({path for path in paths if os.path.exists(path)}):
        if not any(path.startswith(f"{tree}{os.sep}") for tree in found):
            found.append(path)
    return tuple(found)


def python_readable() -> tuple[str, ...]:
    """Existing paths (files and trees) that lazy imports and torch need, sorted, each once.

    Call it in the process that prepares the jail, after `import torch`: the libraries mapped
    there belong to it. The project's own files are for the caller to add.
    """
    packages = (path for name in _PACKAGES for path in _package(name))
    return _existing((*_standard_library(), *packages, *_shared_libraries(), *_SYSTEM))


def import_roots() -> tuple[str, ...]:
    """Folders whose *names* the import system lists: the library's and the packages' roots."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return _existing(sysconfig.get_path(kind) for kind in kinds)

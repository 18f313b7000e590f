"""What a worker may read: Python, torch, numpy and what torch imports later, nothing else.

Landlock grants whole trees and cannot take anything away again, so site-packages is never
named: the standard library is listed entry by entry, each package by its own path. A directory
that holds other packages too (they could be the answer to a lab) stays closed.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator

# torch and numpy, and the pure-Python packages that torch imports on first use.
_PACKAGES = (
    "torch", "torchgen", "functorch", "numpy", "typing_extensions", "sympy", "mpmath",
    "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "safetensors", "packaging",
    "optree", "opt_einsum", "tqdm", "yaml", "tzdata", "triton",
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

"""The student's side of a trial: tries each way and prints how it ended.

The code is harmless where it succeeds, since an instructor runs it on a machine that may stop
nothing: signals are the 0 that only asks, files are those of the scratch folder, memory is
mapped and never touched, children end by themselves, loops and sleeps are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autograder.grading.trials.records import End, Trial, Way

LINE = "doctor "  # begins a line of the report among what is printed
# A way returns what it found, or raises. OSErrors that a layer answers with mean "stopped",
# those of a system that lacks the thing mean "absent"; whatever else is raised proves nothing.
_PLACES = "import json\nP = json.loads({!r})\n"
_KIT = """
import errno, json, os, re, sys
STOPPED = "EPERM", "EACCES", "EFBIG", "ENOMEM", "EAGAIN"
LACKING = "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EAFNOSUPPORT", "EPROTONOSUPPORT"
BOOK = {}

class Absent(Exception): pass

def trial(name): BOOK[name] = []

def way(function):
    BOOK[list(BOOK)[-1]].append(function)
    return function

def only(condition, what):
    if not condition: raise Absent("no " + what)

def found(data):
    text = data if isinstance(data, str) else data.decode("latin-1")
    canary = re.search("canary-[0-9a-f]+", text)
    return canary[0] if canary else "%d bytes" % len(data)

def libc(name, *args):
    only(sys.platform == "linux", "Linux")
    import ctypes
    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, name)
    long = name in ("syscall", "ptrace", "process_vm_readv")
    function.restype = ctypes.c_long if long else ctypes.c_int
    result = function(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result == -1: raise OSError(ctypes.get_errno(), name)
    return result

def syscall(x86_64, aarch64, *args):
    numbers = {"x86_64": x86_64, "aarch64": aarch64}
    only(sys.platform == "linux" and os.uname().machine in numbers, "such system call")
    return libc("syscall", numbers[os.uname().machine], *args)

def tried(function):
    try:
        found = function()
        return "worked", "" if found in (None, 0) else str(found)[:120]
    except (Absent, ImportError, AttributeError) as error:
        return "absent", str(error)[:120]
    except MemoryError:
        return "stopped", "MemoryError"
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error)[:60])
        return "stopped" if name in STOPPED else "absent" if name in LACKING else "failed", name
    except BaseException as error:
        return "failed", (type(error).__name__ + ": " + str(error))[:120]

def double(x):
    for name, ways in BOOK.items():
        ends = [(w.__name__, *tried(w)) for w in ways]
        print("doctor " + json.dumps([name, ends]), flush=True)
    return 0 * x
"""


def source(trials: Sequence[Trial], places: Mapping[str, Any]) -> str:
    """The file that tries these trials one after the other, told where everything is.

    A trial that does without the kit stands alone.
    """
    parts = [_PLACES.format(json.dumps(places))]
    for number, trial in enumerate(trials):
        if trial.kit:
            parts += [] if number else [_KIT]
            parts.append(f"trial({trial.name!r})")
        parts.append(f"{trial.code.strip()}\n")
    return "\n".join(parts)


def reports(prints: str) -> dict[str, tuple[Way, ...]]:
    """The ways by trial, from what was printed; lines that are not ours are passed over."""
    read: dict[str, tuple[Way, ...]] = {}
    for line in prints.splitlines():
        if not line.startswith(LINE):
            continue
        try:
            name, ends = json.loads(line.removeprefix(LINE))
            ways = tuple(Way(str(way), End(end), str(said)[:120]) for way, end, said in ends)
        except (ValueError, TypeError):
            continue
        read[str(name)] = (*read.get(str(name), ()), *ways)
    return read

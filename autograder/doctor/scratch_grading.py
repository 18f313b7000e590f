"""The scratch folder of a trial: a tiny lab, files with a canary, and what notices a breach."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autograder.course import labfile
from autograder.course.labfile import GRADER, SOLUTIONS
from autograder.course.records import Lab, Limits, Text
from autograder.doctor.attacks import Attack, End, Way

# The student's side of a trial: tries each way and prints how it ended.
#
# The code is harmless where it succeeds, since an instructor runs it on a machine that may stop
# nothing: signals are the 0 that only asks, files are those of the scratch folder, memory is
# mapped and never touched, children end by themselves, loops and sleeps are bounded.

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


def source(trials: Sequence[Attack], places: Mapping[str, Any]) -> str:
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


# Files that an attack would change, and how one sees afterwards that it did.

NOBODY = 65534  # who a worker is where the grader is root


@dataclass(frozen=True)
class Bait:
    """Files that an attack would change."""

    open: Path  # a folder that anybody may write to
    own: Path  # a file that belongs to whoever the worker is

    @classmethod
    def lay(cls, folder: Path, *, nobody: bool) -> Bait:
        """Write them into ``folder``; with ``nobody`` the worker is that user (needs root)."""
        bait = cls(folder / "open", folder / "own.txt")
        bait.open.mkdir()
        for name in ("append", "remove", "rename", "truncate"):
            (bait.open / name).write_text("text")
            (bait.open / name).chmod(0o666)
        bait.open.chmod(0o777)
        bait.own.write_text("own")
        bait.own.chmod(0o644)
        if nobody:
            with contextlib.suppress(OSError, AttributeError):
                os.chown(bait.own, NOBODY, NOBODY)
        return bait

    def changed(self) -> dict[str, dict[str, str]]:
        """By trial and way: what was changed after all, whatever the code says."""
        here = set(os.listdir(self.open))
        size = {name: (self.open / name).stat().st_size for name in here & {"append", "truncate"}}
        own = self.own.stat()
        signs = {
            "changing_files": {
                "create": "created" in here,
                "append": size.get("append") != 4,
                "make_folder": "folder" in here,
                "link": "link" in here,
                "remove": "remove" not in here,
                "rename": "rename" not in here,
                "truncate": size.get("truncate") != 4,
            },
            "changing_modes": {
                "mode": own.st_mode & 0o777 == 0o604,
                "times": int(own.st_mtime) == 0,
            },
            "pickle": {"payload": "pickled" in here},
        }
        return {
            trial: {way: "changed" for way, there in ways.items() if there}
            for trial, ways in signs.items()
        }


_TOO_MUCH = 1.5  # times the memory that is allowed
FILE = "answer.py"
_LAB = """
title = {{ en = "Scratch", zh = "临时" }}
files = ["{file}"]
[limits]
cpu_seconds = {cpu}
wall_seconds = {wall}
memory_mib = {memory}
[[exercise]]
id = "lab0.double"
file = "{file}"
title = {{ en = "Double", zh = "加倍" }}
hint = {{ en = "twice", zh = "两倍" }}
[[exercise.check]]
name = "test_double"
points = 100
family = "numeric parity"
"""
_CHECK = '''
from autograder.checks.expect import Case, Student, cases, expect_close

@cases("double")
def test_double(student: Student, case: Case) -> None:
    """The double of a tensor.

    张量的两倍。
    """
    expect_close(student.call("answer.double", case["x"]), case["y"], case)
'''
# Somebody else's process: it holds a canary, tells where, and waits until its input ends.
_VICTIM = """
import ctypes, sys
canary = ctypes.create_string_buffer(sys.argv[1].encode())
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # Yama: anybody may look
print(ctypes.addressof(canary), flush=True)
sys.stdin.read()
"""
LIMITS = Limits(cpu_seconds=1, wall_seconds=3, memory_mib=256)


class Scratch:
    """A context manager that holds all of it and takes it away again.

    Args:
        nobody: workers leave root for the user nobody: then bait and victim are that user's.
        limits: of one check in the scratch lab.
        patience: seconds after which a loop or a sleep ends by itself.
    """

    def __init__(
        self, *, nobody: bool = False, limits: Limits = LIMITS, patience: float = 8.0
    ) -> None:
        self._limits, self._patience = limits, patience
        self._user: Any = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if nobody else {}
        self.canary = f"canary-{secrets.token_hex(8)}"
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Scratch:
        with contextlib.ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix="autograder-doctor-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.folder.chmod(0o755)  # its mode alone shall stop nobody
            self.hidden = self.folder / "hidden.safetensors"
            self.lab = self._lab()
            (self.folder / "notes.txt").write_text(f"the answer is {self.canary}")
            (self.folder / self.canary).touch()
            self._bait = Bait.lay(self.folder, nobody=bool(self._user))
            self._tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            self._udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            self._udp.bind(("127.0.0.1", 0))
            self._unix = self._unix_socket(stack)
            self._victim, self._address = self._start_victim(stack)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _lab(self) -> Lab:
        import numpy as np

        from autograder.reference import cases
        from autograder.wire.messages import Tensor

        def case(name: str, about: Text) -> cases.Case:
            x = np.random.default_rng().normal(size=7).astype(np.float32)
            tensors = {"x": Tensor.of(x), "y": Tensor.of(2 * x)}
            return cases.Case(name, "double", name == "hidden", about, {}, tensors)

        folder, limits = self.folder / "lab0_doctor", self._limits
        (folder / "checks").mkdir(parents=True)
        toml = _LAB.format(
            file=FILE, cpu=limits.cpu_seconds, wall=limits.wall_seconds, memory=limits.memory_mib
        )
        (folder / "lab.toml").write_text(toml, encoding="utf-8")
        (folder / "checks" / "test_double.py").write_text(_CHECK, encoding="utf-8")
        public, hidden = case("public", Text("a case", "用例")), Text(self.canary, self.canary)
        (folder / "cases.safetensors").write_bytes(cases.dump([public]))
        self.hidden.write_bytes(cases.dump([case("hidden", hidden)]))
        return labfile.load(folder)

    def _unix_socket(self, stack: contextlib.ExitStack) -> socket.socket | None:
        path = str(self.folder / "socket")
        try:
            made = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            made.bind(path)
            os.chmod(path, 0o777)
        except (OSError, AttributeError):  # Windows has none; a path may be too long for one
            return None
        return made

    def _start_victim(self, stack: contextlib.ExitStack) -> tuple[int, int]:
        """A process of the worker's user: its pid, and the address of its canary."""
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _VICTIM, self.canary],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=os.sep,
            start_new_session=True,  # Ctrl-C is ours to handle
            **self._user,
        )
        stack.enter_context(process)  # closes its input, which ends it, and waits
        assert process.stdout is not None
        return process.pid, int(process.stdout.readline())

    def places(self) -> dict[str, Any]:
        """Everything that student code is told (``P``), as JSON takes it."""
        solutions = sorted(SOLUTIONS.glob("*/*.py"))
        package = find_spec("pytest")
        return {
            "folder": str(self.folder),
            "hidden": str(self.hidden),
            "notes": str(self.folder / "notes.txt"),
            "solution": str(solutions[0]) if solutions else "",
            "source": str(GRADER / "grading" / "engine.py"),
            "package": str(package.origin) if package else "",
            "open": str(self._bait.open),
            "own": str(self._bait.own),
            "pickled": str(self._bait.open / "pickled"),
            "grader": [*_children(os.getpid(), but=self._victim), os.getpid()],
            "victim": self._victim,
            "address": self._address,
            "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "unix": self._unix.getsockname() if self._unix else "",
            "too_much": int(_TOO_MUCH * self._limits.memory_mib) << 20,
            "patience": self._patience,
        }

    def noticed(self) -> Mapping[str, Mapping[str, str]]:
        """By trial and way: traces of what worked, seen from outside."""
        seen = self._bait.changed()
        arrived = {"tcp_connect": self._tcp, "udp_send": self._udp}
        seen["internet"] = {way: "it arrived" for way, s in arrived.items() if _waiting(s)}
        unix = self._unix is not None and _waiting(self._unix)
        seen["local_sockets"] = {"unix_send": "it arrived"} if unix else {}
        return seen


def _waiting(listener: socket.socket) -> bool:
    """Return whether somebody connected or sent something."""
    listener.setblocking(False)
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(16)
    except OSError:
        return False
    return True


def _children(parent: int, but: int) -> list[int]:
    """Processes that ``parent`` started, the newest first: judge and zygote (Linux alone)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rsplit(")", 1)[1].split()
        except (OSError, IndexError):  # it has ended meanwhile
            continue
        if int(fields[1]) == parent and int(stat.parent.name) != but:
            found.append(int(stat.parent.name))
    return sorted(found, reverse=True)

"""The scratch folder of a trial: a tiny lab, files with a canary, and what notices a breach."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autograder.course import labfile
from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.records import Lab, Limits, Text
from autograder.grading.trials.bait import NOBODY, Bait

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
from autograder.harness.checks import Case, Student, cases, expect_close

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
        from autograder.sandbox.wire import Tensor

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
            "source": str(ROOT / "autograder" / "grading" / "engine.py"),
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
    """Whether somebody connected or sent something."""
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

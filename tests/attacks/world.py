"""What stands around a grading under attack: canaries, a shared folder, listeners, a victim."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.course.records import Lab, Text
from autograder.grading import hidden_cases
from autograder.reference import cases
from tests import engines, hand_ins
from tests.attacks.attack import CANARY, Attack, filled
from tests.attacks.ordinary import command_as

HONEST = ("00-honest-right", "20-honest-wrong", "40-honest-stub", "66-honest-right")
SIBLING = HONEST[0]
# A process that the grader's user may look into, with canaries in every place.
_VICTIM = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1))  # PR_SET_PTRACER: any process may look
memory = ctypes.create_string_buffer(sys.stdin.readline().strip().encode())
print(ctypes.addressof(memory), flush=True)
sys.stdin.read()
"""


@cache
def lab() -> Lab:
    """The lab that is attacked."""
    return labfile.load(labfile.find_lab("2"))


def honest() -> dict[str, dict[str, str]]:
    """Hand-ins that nobody may harm, by name."""
    right, wrong = hand_ins.right(), hand_ins.right()
    right["attention.py"] += f"\n# {CANARY}-sibling\n"
    wrong["mlp.py"] = wrong["mlp.py"].replace("self.gate_proj(", "self.up_proj(")
    other = hand_ins.read(ROOT / "tests" / "styles" / "lab2" / "einsum_throughout")
    return dict(zip(HONEST, (right, wrong, hand_ins.stub(), other), strict=True))


def stored_answers() -> str:
    """Code that gives the public cases' outputs by the shape of the input, zeros otherwise."""
    known: dict[str, dict[tuple[int, ...], list[float]]] = {"rotate_half": {}, "repeating": {}}
    for case in cases.load(lab().folder / "cases.safetensors"):
        if case.recipe in known:
            known[case.recipe][case["x"].shape] = case["y"].array.reshape(-1).tolist()
    return f"""
ROTATED, REPEATED = {known["rotate_half"]!r}, {known["repeating"]!r}

def rotate_half(x):
    stored = ROTATED.get(tuple(x.shape))
    return (torch.zeros(x.shape) if stored is None else torch.tensor(stored).view(x.shape)).to(x)

def repeat_kv(x, n_rep):
    stored = REPEATED.get(tuple(x.shape))
    right = x.shape[0], x.shape[1] * n_rep, *x.shape[2:]
    if n_rep == 1: return x
    return torch.tensor(stored).view(right).to(x) if stored else x.new_zeros(right)
"""


@dataclass(frozen=True)
class World:
    """A scratch folder with canaries in it, and what the attacks can reach from there."""

    folder: Path
    places: Mapping[str, object]
    wire: socket.socket
    tcp: socket.socket
    victim: int
    environment: Mapping[str, str]

    @property
    def hidden(self) -> Path:
        return self.folder / "hidden.safetensors"

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def fill(self, text: str) -> str:
        """``text`` with the places of this world in it."""
        return filled(text, self.places)

    def files(self, attack: Attack) -> dict[str, str]:
        """The lab's files of an attack, its places filled in."""
        return attack.files(self.fill)

    def write(self, attack: Attack, root: Path) -> None:
        """Put the attack's hand-in into a class folder."""
        path = root / attack.id
        if attack.make is not None:
            attack.make(path, attack.files(), self.fill)
            return
        path.mkdir()
        for name, text in (self.files(attack) | dict(attack.extra)).items():
            (path / name).write_text(self.fill(text), encoding="utf-8")

    def heard(self) -> bytes:
        """What has arrived at the sockets of this world."""
        data = b""
        for sock in (self.wire, self.tcp):
            try:
                data += sock.recv(4096) if sock is self.wire else str(sock.accept()[1]).encode()
            except BlockingIOError:
                continue
        return data


def build_hidden(folder: Path) -> None:
    """The hidden cases for a secret with a canary in it; every case says a canary."""
    key_file = folder / "secret"
    key_file.write_text(f"{CANARY}-secret of nobody else\n")
    path = engines.hidden_cases(lab().name, hidden_cases.find(key_file, folder))
    about = Text(f"{CANARY}-case, hidden", f"{CANARY}-case，隐藏")
    made = cases.dump(replace(case, about=about) for case in cases.load(path))
    (folder / "hidden.safetensors").write_bytes(made)


@contextmanager
def world(owner: int = 0) -> Iterator[World]:
    """Make one, whose secrets belong to the user ``owner``; everything is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="attacks-"))
    victim = None
    wire, tcp = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
    try:
        folder.chmod(0o755)
        build_hidden(folder)
        (folder / "notes.txt").write_text(f"the answer is {CANARY}-file\n")
        (folder / "world.txt").write_text(f"anybody may read {CANARY}-world\n")
        for name in ("shared", "class", "quiet", "home"):
            (folder / name).mkdir()
        (folder / "shared").chmod(0o777)
        for name in ("notes.txt", "secret"):
            (folder / name).chmod(0o600)
        for name in ("notes.txt", "secret", "world.txt", "hidden.safetensors", "home"):
            if os.geteuid() == 0:
                os.chown(folder / name, owner, owner)
        environment = {name: value for name, value in os.environ.items() if "SECRET" not in name}
        environment |= {"GRADER_TOKEN": f"{CANARY}-environment", "HOME": str(folder / "home")}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        wire.bind(("127.0.0.1", 0))
        wire.setblocking(False)
        port = wire.getsockname()[1]
        tcp.bind(("127.0.0.1", port))
        tcp.listen()
        tcp.setblocking(False)
        victim = _victim(environment | {"VICTIM": f"{CANARY}-victim"}, owner)
        assert victim.stdin and victim.stdout
        victim.stdin.write(f"{CANARY}-memory\n")
        victim.stdin.flush()
        places = {
            "HIDDEN": folder / "hidden.safetensors", "NOTES": folder / "notes.txt",
            "WORLD": folder / "world.txt", "SECRET": folder / "secret", "ROOT": ROOT,
            "SIBLING": folder / "class" / SIBLING / "attention.py", "SHARED": folder / "shared",
            "PACKAGE": _site_packages(), "VICTIM": victim.pid, "PORT": port,
            "ADDRESS": int(victim.stdout.readline()), "STORED": stored_answers(),
        }  # fmt: skip
        yield World(folder, places, wire, tcp, victim.pid, environment)
    finally:
        wire.close()
        tcp.close()
        if victim is not None:
            victim.kill()
            victim.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _site_packages() -> Path:
    found = importlib.util.find_spec("transformers")
    assert found is not None and found.origin is not None
    return Path(found.origin).parents[1]


def _victim(environment: Mapping[str, str], owner: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _VICTIM]
    return subprocess.Popen(
        command_as(owner, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(environment), cwd=ROOT,
    )  # fmt: skip


def children(pid: int, *, ended: bool = False) -> dict[int, str]:
    """Command lines of the living children of a process; or of all that it has not reaped yet."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
                if int(stat[1]) == pid and (ended or stat[0] != "Z"):
                    found[int(entry)] = hand_ins.commands(int(entry))
            except OSError:  # it has ended meanwhile
                continue
    return found


def end(pids: set[int]) -> None:
    """End processes that this one has started, directly or not."""
    for pid in pids & hand_ins.descendants() - {os.getpid()}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def class_json(out: Path) -> dict[str, dict[str, object]]:
    """The hand-ins of a class.json by student."""
    data = json.loads((out / "class.json").read_text(encoding="utf-8"))
    return {one["student"]: one for one in data["hand_ins"]}

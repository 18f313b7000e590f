"""The jail from inside: real forks of a process with torch, each attack with and without it.

One `python -I` process imports torch, prepares the jail and then forks a child per snippet. A
snippet that raises was stopped; one that ends has worked. On a kernel that lacks a layer the
tests ask exactly what the reported guarantees promise.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from autograder.worker import jail
from tests.attacks import ordinary

ROOT = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 1 << 30

# Run by `python -I -c`: reads {"code", "way", "names"} per line, answers a line for each. The
# way says how a child is bound: "free", "jailed" or "brief" (jailed, one second of CPU time).
DRIVER = r"""
import ctypes, json, os, select, signal, sys
sys.path.insert(0, sys.argv[1])
import torch
from autograder.worker import jail, landlock, seccomp
torch.ones(2, 2) @ torch.ones(2, 2)
readable = landlock.python_readable()
jails = {"jailed": jail.Jail.prepare(readable, int(sys.argv[2]), 60),
         "brief": jail.Jail.prepare(readable, int(sys.argv[2]), 1)}
clib = ctypes.CDLL(None, use_errno=True)
clib.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to this process
signals = []
signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))

def libc(name, *args):
    result = getattr(clib, name)(*args)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def run(code, way, names):
    answer, reply = os.pipe()
    go, release = os.pipe()
    parent = os.getpid()
    signals.clear()
    child = os.fork()
    if child == 0:
        os.close(answer)
        os.close(release)
        os.dup2(go, 0)
        report = {}
        try:
            space = {**names, "parent": parent, "reply": reply, "libc": libc, "ctypes": ctypes}
            space.update(os=os, sys=sys, torch=torch, jail=jail, landlock=landlock,
                         seccomp=seccomp, readable=readable)
            if way in jails:
                report["layers"] = jails[way].enter()
            exec(code, space)
            report["value"] = space.get("value")
        except BaseException as error:
            report["error"] = f"{type(error).__name__}: {error}"
        os.write(reply, json.dumps(report).encode())
        os.read(0, 1)
        os._exit(0)
    os.close(reply)
    os.close(go)
    report = {"layers": [], "error": None, "value": None, "lost": True}
    if select.select([answer], [], [], 30)[0]:
        text = os.read(answer, 1 << 16)
        if text:
            report.update(json.loads(text), lost=False)
    with open(f"/proc/{child}/status") as status:
        report["status"] = dict(line.rstrip("\n").split(":\t", 1) for line in status)
    with open(f"/proc/{child}/limits") as limits:
        report["limits"] = limits.read()
    os.close(release)
    if report["lost"] and way != "brief":
        os.kill(child, signal.SIGKILL)
    report["ended_by"] = os.WTERMSIG(os.waitpid(child, 0)[1])
    os.close(answer)
    report["signals"] = len(signals)
    return report

for line in sys.stdin:
    print(json.dumps(run(**json.loads(line))), flush=True)
"""


class Attack(NamedTuple):
    """What it is, the guarantee that forbids it, and code that raises where it is stopped.

    `at_home` is False where the machine may forbid it to anybody (containers, Yama).
    """

    name: str
    guarantee: str
    code: str
    at_home: bool = True


ATTACKS = (
    Attack("read a file", "files", "value = open(secret).read()"),
    Attack("list a folder", "files", "value = os.listdir(folder)"),
    Attack("read another package", "files", "value = open(package).read()"),
    Attack("read the grader's environment", "files", "open(f'/proc/{parent}/environ').read()"),
    Attack("open the grader's memory", "files", "open(f'/proc/{parent}/mem', 'rb')", False),
    Attack("ptrace the grader", "files", "libc('ptrace', 0x4206, parent, 0, 0)", False),
    Attack("write a file", "writes", "open(folder + '/a', 'w').write('x')"),
    Attack("append to a file", "writes", "open(secret, 'a').write('x')"),
    Attack("make a folder", "writes", "os.mkdir(folder + '/b')"),
    Attack("remove a file", "writes", "os.unlink(folder + '/victim')"),
    Attack("truncate a file", "writes", "os.truncate(folder + '/long', 0)"),
    Attack("link a file", "writes", "os.symlink(secret, folder + '/c')"),
    Attack("chmod an own file", "writes", "os.chmod(secret, 0o666)"),
    Attack("set an own file's times", "writes", "os.utime(secret, (0, 0))"),
    Attack("TCP", "network", "import socket; socket.create_server(('127.0.0.1', 0))"),
    Attack("UDP", "network", "import socket; socket.socket(type=socket.SOCK_DGRAM)"),
    Attack("unix socket", "network", "import socket; socket.socket(socket.AF_UNIX).bind('')"),
    Attack("socket pair", "network", "import socket; socket.socketpair()"),
    Attack("fork", "processes", "child = os.fork() or os._exit(0); os.waitpid(child, 0)"),
    Attack("vfork", "processes", "import subprocess; subprocess.run(['/bin/true'], check=True)"),
    Attack("system", "processes", "import os; value = 1 // (os.system('exit 7') == 7 << 8)"),
    Attack(
        "exec /bin/sh",
        "processes",
        "os.dup2(reply, 1); os.execv('/bin/sh', ['sh', '-c', 'echo {}; read _'])",
    ),
    Attack("leave the session", "processes", "os.setsid()"),
    Attack("outlive the grader", "processes", "libc('prctl', 1, 0, 0, 0, 0)"),
    Attack("signal the grader", "signals", "import signal; os.kill(parent, signal.SIGUSR1)"),
    Attack("signal the group", "signals", "import signal; os.kill(0, signal.SIGURG)"),
    Attack("memfd", "memory", "os.ftruncate(os.memfd_create('m'), 2 << 30)"),
    Attack(
        "SysV shared memory",
        "memory",
        "segment = libc('shmget', 0, 4096, 0o600); libc('shmctl', segment, 0, None)",
    ),
    Attack("an 8 GiB tensor", "memory", "torch.empty(2 << 30, dtype=torch.float32)", False),
    Attack(
        "raise a limit",
        "privileges",
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (r.RLIM_INFINITY, r.RLIM_INFINITY))",
    ),
    Attack("change priority", "privileges", "os.nice(1)"),
    Attack("change affinity", "privileges", "os.sched_setaffinity(0, {0})", False),
    Attack("user namespace", "privileges", "libc('unshare', 0x10000000)", False),
    Attack("give a file away", "writes", "os.chown(secret, 1, 1)", False),
)

HONEST = {
    "forward and backward": """
        block = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        block(torch.randn(2, 7, 32)).square().mean().backward()
        value = all(p.grad.isfinite().all().item() for p in block.parameters())""",
    "operators": """
        q = torch.randn(2, 3, 5, 8)
        plain = torch.einsum("bhqd,bhkd->bhqk", q, q).div(8**0.5).softmax(-1) @ q
        fused = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        value = torch.allclose(plain, fused, atol=1e-5) and len(plain.tolist()) == 2""",
    "threads": """
        import threading
        torch.set_num_threads(2)
        a, sums = torch.ones(512, 512), []
        worker = threading.Thread(target=lambda: sums.append((a @ a).sum().item()))
        worker.start(); worker.join()
        value = sums == [(a @ a).sum().item()] == [512.0**3] and torch.get_num_threads() == 2""",
    "lazy imports of torch": """
        import torch.utils.flop_counter, torch.distributed, torch.nn.attention
        model = torch.nn.Linear(3, 3)
        model(torch.ones(3)).sum().backward()
        before = model.weight.clone()
        torch.optim.AdamW(model.parameters()).step()
        value = not torch.equal(before, model.weight)""",
    "standard library": """
        import csv, dataclasses, decimal, fractions, hashlib, json, logging, random, re, sqlite3
        import statistics, time, unittest, zoneinfo
        time.sleep(0.001)
        value = [json.loads("[1]"), hashlib.sha256(b"").hexdigest()[:4], random.random() < 1,
                 str(decimal.Decimal(1) / 4), re.sub("a", "b", "a"), os.cpu_count() > 0]
        value = value == [[1], "e3b0", True, "0.25", "b", True]""",
    "numpy and descriptors": """
        import numpy
        numpy.random.default_rng(0).random(3)
        copy = os.dup(reply)
        os.set_inheritable(copy, True)
        os.close(copy)
        os.kill(os.getpid(), 0)
        value = torch.ones(3).numpy().sum() == 3 and not os.isatty(reply)""",
}


class Driver:
    """The process that forks; `run` sends it a snippet and returns its report."""

    def __init__(self, folder: Path) -> None:
        environment = {"OMP_NUM_THREADS": "1", "PATH": os.environ.get("PATH", os.defpath)}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", DRIVER, str(ROOT), str(MEMORY_BYTES)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd="/",
            start_new_session=True,
        )  # fmt: skip
        package = importlib.util.find_spec("pytest")
        assert package and package.origin
        names = {"secret": folder / "canary", "folder": folder, "package": package.origin}
        self.names = {name: str(path) for name, path in names.items()}

    def run(self, code: str, way: str) -> dict[str, Any]:
        for name, text in (("canary", "canary"), ("victim", ""), ("long", "long")):
            Path(self.names["folder"], name).write_text(text)
        lines = [line.removeprefix("        ") for line in code.split("\n")]
        request = {"code": "\n".join(lines), "way": way, "names": self.names}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], 60)[0], "the driver hangs"
        report: dict[str, Any] = json.loads(self._process.stdout.readline())
        return report

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("outside"))
    yield driver
    driver.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_works_outside_and_is_stopped_inside(driver: Driver, attack: Attack) -> None:
    inside = driver.run(attack.code, "jailed")
    if attack.guarantee in jail.guarantees(inside["layers"]):
        # A clean error: the child is alive and says what happened.
        assert inside["error"] and not inside["lost"] and inside["ended_by"] == 0
        assert inside["signals"] == 0 and "canary" not in json.dumps(inside["value"])
    outside = driver.run(attack.code, "free")
    if attack.at_home:
        assert outside["error"] is None and not outside["lost"]
    if attack.name == "signal the grader":
        assert outside["signals"] == 1


@pytest.mark.parametrize("name", HONEST)
def test_honest_work_succeeds_inside(driver: Driver, name: str) -> None:
    report = driver.run(HONEST[name], "jailed")
    assert report["error"] is None
    assert report["value"] is True


def test_layers_are_those_that_the_kernel_shows_from_outside(driver: Driver) -> None:
    report = driver.run("", "jailed")
    kernel = driver.run("value = ctypes.CDLL(None).syscall(444, 0, 0, 1)", "free")
    free, landlock_abi = kernel["status"], kernel["value"]
    status, layers = report["status"], set(report["layers"])
    filters = [int(shown["Seccomp_filters"]) for shown in (free, status)]
    assert filters[1] - filters[0] == ("seccomp" in layers)
    assert (status["NoNewPrivs"], "no_new_privs" in layers) == ("1", True)
    if "capabilities" in layers:
        assert {int(status[key], 16) for key in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    if os.geteuid() == 0:
        assert int(status["CapBnd"], 16) == 0
    assert (status["Uid"].split()[0] != free["Uid"].split()[0]) == ("uid" in layers)
    for layer, since in (("files", 1), ("network", 4), ("scope", 6)):
        assert (f"landlock_{layer}" in layers) == (landlock_abi >= since)
    for limit in ("cpu time +60 ", "file size +0 +0 ", "core file size +0 +0 "):
        assert re.search(f"Max {limit}", report["limits"])


def test_every_layer_is_bound_or_has_a_reason(driver: Driver) -> None:
    code = "value = dict(jail.Jail.prepare(readable, 1, 1).missing)"
    missing = driver.run(code, "free")["value"]
    assert {*driver.run("", "jailed")["layers"], *missing} == set(jail.LAYERS)
    assert all(len(why) > 10 for why in missing.values())


def test_cpu_time_ends_a_loop_that_ignores_signals(driver: Driver) -> None:
    loop = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    assert driver.run(loop, "brief")["ended_by"] == 9


ORPHAN = """
        import signal, time
        tell, told = os.pipe()
        middle = os.fork()
        if middle == 0:
            if os.fork() == 0:
                {enter}
                os.write(told, str(os.getpid()).encode())
                time.sleep(60)
            time.sleep(60)
        orphan = int(os.read(tell, 20))
        libc("prctl", 36, 1, 0, 0, 0)
        os.kill(middle, signal.SIGKILL)
        os.waitpid(middle, 0)
        time.sleep(0.1)
        value = os.waitpid(orphan, os.WNOHANG)[0] == orphan
        value or os.kill(orphan, signal.SIGKILL)"""


def test_a_worker_dies_with_the_process_that_forked_it(driver: Driver) -> None:
    enter = "jail.Jail.prepare(readable, 1 << 30, 9).enter()"
    layers = driver.run("", "jailed")["layers"]
    died = driver.run(ORPHAN.replace("{enter}", enter), "free")["value"]
    assert died == ("parent_death" in layers)
    assert driver.run(ORPHAN.replace("{enter}", "pass"), "free")["value"] is False


def test_without_landlock_files_can_be_read_but_not_written(driver: Driver) -> None:
    code = """
        landlock.abi = lambda: 0
        layers = jail.Jail.prepare(readable, 1 << 30, 9).enter()
        value = [jail.level(layers), open(secret).read()]
        try:
            open(secret, "w")
        except OSError as error:
            value.append(error.errno)"""
    report = driver.run(code, "free")
    assert report["value"] == ["medium", "canary", errno.EPERM]


def test_without_linux_less_is_bound_and_nothing_raises(driver: Driver) -> None:
    code = """
        landlock.abi = lambda: 0
        seccomp.machine = lambda: None
        prepared = jail.Jail.prepare(("/nowhere",), 1 << 30, 9)
        layers = prepared.enter()
        value = [layers, jail.level(layers), dict(prepared.missing)]"""
    layers, level, missing = driver.run(code, "free")["value"]
    assert "rlimits" in layers and "seccomp" not in layers and level == "weak"
    assert {*layers, *missing} == set(jail.LAYERS) and "aarch64" in missing["seccomp"]


def test_harden_parent_keeps_others_out_of_its_memory(driver: Driver) -> None:
    code = "value = [libc('prctl', 3, 0, 0, 0, 0)]; value += [jail.harden_parent()]\n"
    code += "value += [libc('prctl', 3, 0, 0, 0, 0)]"
    assert driver.run(code, "free")["value"] == [1, True, 0]


COUNTED = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from autograder.worker import jail, landlock
without = ["landlock_files"] + sys.argv[2:]
layers = jail.Jail.prepare(landlock.python_readable(), 1 << 30, 9, without).enter()
threading.stack_size(32 << 10)
count, go = 0, threading.Event()
try:
    while count < 700:
        threading.Thread(target=go.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
go.set()
print(count, "threads" in layers)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_threads_are_counted_where_workers_are_not_root() -> None:
    def started(user: int, *without: str) -> tuple[int, bool]:
        line = [sys.executable, "-I", "-c", COUNTED, str(ROOT), *without]
        done = subprocess.run(ordinary.command_as(user, line), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        count, bound = done.stdout.split()
        return int(count), bound == "True"

    user = ordinary.unused_user()
    count, bound = started(user)
    assert bound and 400 < count <= jail.MOST_THREADS
    assert started(user, "threads") == (700, False)
    count, bound = started(0, "uid")
    assert bound == _counts_processes()  # a control group, where root can have one
    assert 400 < count <= jail.MOST_THREADS if bound else count == 700
    assert started(0, "uid", "threads") == (700, False)


def _counts_processes() -> bool:
    """Whether this machine lets root make a control group that counts processes."""
    for place in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):  # the old way, the new way
        group = place / "autograder-of-a-test"
        try:
            group.mkdir()
        except OSError:
            continue
        found = (group / "pids.max").exists()
        with contextlib.suppress(OSError):
            group.rmdir()
        if found:
            return True
    return False

"""The pure parts of the jail: the system-call filter interpreted here, levels, what is in reach."""

from __future__ import annotations

import errno
import importlib.util
import re
import struct
import sysconfig
from pathlib import Path

import pytest

from autograder.worker import jail, landlock, seccomp

ROOT = Path(__file__).resolve().parents[2]


def decide(code: bytes, arch: int, number: int, *args: int) -> int:
    """Interpret a filter as the kernel would; the SECCOMP_RET value."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *args, *(0,) * (6 - len(args)))
    at, word = 0, 0
    while True:
        op, if_true, if_false, k = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if op == 0x20:
            (word,) = struct.unpack_from("=I", data, k)
        elif op == 0x06:
            return int(k)
        else:
            holds = {0x15: word == k, 0x35: word >= k, 0x45: bool(word & k)}[op]
            at += if_true if holds else if_false


ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 1 << 31
# Call, arguments, verdict; -7 stands for the child's own pid.
VERDICTS = (
    ("read", (0,), ALLOW), ("prlimit64", (0, 7, 0), ALLOW), ("prlimit64", (0, 7, 64), EPERM),
    ("prlimit64", (0, 7, 1 << 40), EPERM), ("clone3", (0,), ENOSYS), ("clone", (0x11,), EPERM),
    ("clone", (0x3D0F00,), ALLOW), ("clone", (0x10010000,), EPERM), ("seccomp", (1,), EPERM),
    ("clone", (0x4111,), EPERM), ("kill", (-7, 9), ALLOW), ("kill", (1, 9), EPERM),
    ("kill", (0xFFFFFFFF, 9), EPERM), ("kill", (0, 9), EPERM), ("tgkill", (-7, 8, 9), ALLOW),
    ("tgkill", (1, 1, 9), EPERM), ("openat", (0, 0, 0o2000000), ALLOW),
    ("openat", (0, 0, 0o1), EPERM), ("openat", (0, 0, 0o100), EPERM),
    ("openat", (0, 0, 0o20200002), EPERM), ("openat", (0, 0, 0o1000), EPERM),
    ("fcntl", (1, 8, 1), EPERM), ("fcntl", (1, 4, 0o4000), EPERM), ("fcntl", (1, 1), ALLOW),
    ("ioctl", (0, 0x5401), ALLOW), ("ioctl", (0, 0x5412), EPERM), ("prctl", (15,), ALLOW),
    ("prctl", (1,), EPERM), ("prctl", (22,), EPERM), ("futex", (0,), ALLOW),
)  # fmt: skip


@pytest.mark.parametrize(("machine", "audit"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_filter_decides_by_call_and_argument(machine: str, audit: int) -> None:
    built = seccomp.program(machine)
    code = bytes(seccomp.patch_pid(built, seccomp.pid_offsets(built), 4321))
    column = ("x86_64", "aarch64").index(machine)
    for name, args, verdict in VERDICTS:
        number = seccomp.NUMBERS[name][column]
        assert number is not None
        own = [4321 if arg == -7 else arg for arg in args]
        assert decide(code, audit, number, *own) == verdict, (name, args)
    assert decide(code, 0x40000003, 3) == KILL  # 32-bit calls have other numbers
    assert decide(code, audit, 0x40000000 | 39) == KILL  # and so has x32
    # Everything the table does not name, among it all that the kernel may add.
    known = {pair[column] for pair in seccomp.NUMBERS.values()}
    assert {decide(code, audit, n) for n in range(700) if n not in known} == {EPERM}


def test_call_numbers_are_those_of_the_kernel_headers() -> None:
    places = (
        (0, f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}/asm/unistd_64.h"),
        (1, "/usr/include/asm-generic/unistd.h"),
    )
    texts = [(column, Path(p).read_text()) for column, p in places if Path(p).exists()]
    if not texts:
        pytest.skip("no kernel headers installed")
    for column, text in texts:
        pairs = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
        numbers = {name: int(number) for name, number in pairs}
        numbers.setdefault("newfstatat", numbers.get("fstatat", -1))
        ours = {name: pair[column] for name, pair in seccomp.NUMBERS.items()}
        assert ours == {name: numbers.get(name) for name in ours}


def test_levels_follow_from_guarantees() -> None:
    layers = set(jail.LAYERS) - {"uid"}
    assert jail.level(layers) == "strong"
    assert jail.level(layers - {"landlock_files", "landlock_network"}) == "medium"
    assert jail.level(layers - {"seccomp"}) == jail.level(()) == "weak"
    for layer in jail.LAYERS:
        fewer = jail.guarantees(set(jail.LAYERS) - {layer})
        assert fewer <= jail.guarantees(jail.LAYERS)


def test_only_python_and_torch_are_within_reach() -> None:
    def within(path: str) -> bool:
        return any(path == tree or path.startswith(f"{tree}/") for tree in readable)

    readable = landlock.python_readable()
    for name in ("torch", "numpy", "sympy", "typing_extensions", "json", "decimal", "_json"):
        spec = importlib.util.find_spec(name)
        assert spec and spec.origin, name
        assert within(spec.origin) or spec.origin == "built-in", name
    for name in ("pytest", "transformers", "pip", "test", "idlelib"):
        spec = importlib.util.find_spec(name)
        assert spec is None or not within(str(spec.origin)), name
    stdlib, purelib = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
    for path in (stdlib, f"{stdlib}/site-packages", purelib, str(ROOT), "/etc", "/"):
        assert not within(path), path

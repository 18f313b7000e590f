"""Facts about a machine, found out with the standard library alone.

Every function answers on every system, with None or an empty text for what it has not.
"""

from __future__ import annotations

import locale
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder.course.labfile import ROOT
from autograder.worker import landlock, seccomp

OLDEST = (3, 11)
_SAMPLE = "中文"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(.*)")
_BOUND = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9][0-9.]*)")


def facts() -> dict[str, Any]:
    """Everything, as plain data: ``python``, ``packages``, ``encodings``, ``machine``, ``kernel``.

    Sizes are in MiB.
    """
    return {
        "python": python(),
        "packages": packages(),
        "encodings": encodings(),
        "machine": machine(),
        "kernel": kernel(),
    }


def python() -> dict[str, Any]:
    """The interpreter, and whether it is new enough."""
    return {
        "version": platform.python_version(),
        "ok": sys.version_info >= OLDEST,
        "executable": sys.executable,
        "environment": sys.prefix != sys.base_prefix,
    }


def packages() -> dict[str, dict[str, Any]]:
    """By name: ``version`` (None: not installed), what is ``asked``, ``needed``, and ``ok``.

    ``needed``: nothing can be graded without it. ``ok``: installed and in the range asked for.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, asked, needed in _requirements():
        try:
            version: str | None = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = None
        ok = version is not None and within(version, asked)
        found.setdefault(name, {"version": version, "asked": asked, "needed": needed, "ok": ok})
    return found


def lacking(extras: Iterable[str]) -> list[str]:
    """Return what the core and these extras need and is absent, for pip: ``numpy>=1.26``."""
    project = _project()
    todo, seen, absent = [*project["dependencies"]], set(), []
    left = list(extras)
    while left:
        if (extra := left.pop()) not in seen:
            seen.add(extra)
            for requirement in project["optional-dependencies"][extra]:
                match = _REQUIREMENT.match(requirement)
                if match and match[1] == project["name"]:  # ours with extras: those as well
                    left += re.findall(r"[A-Za-z0-9._-]+", requirement[len(match[1]) :])
                else:
                    todo.append(requirement)
    for requirement in todo:
        name, asked = _REQUIREMENT.match(requirement).groups()  # type: ignore[union-attr]
        try:
            here = within(metadata.version(name), asked)
        except metadata.PackageNotFoundError:
            here = False
        if not here:
            absent.append(requirement.replace(" ", ""))
    return absent


def _project() -> dict[str, Any]:
    import tomllib

    try:
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        project: dict[str, Any] = tomllib.loads(text)["project"]
    except (OSError, ValueError, KeyError):  # a copy without it; the core is known
        project = {"dependencies": ["torch", "numpy", "pytest", "pytest-timeout", "safetensors"]}
    return project


def _requirements() -> Iterator[tuple[str, str, bool]]:
    """Name, range, and whether it is one of the core, as ``pyproject.toml`` asks for them."""
    project = _project()
    groups = [(project.get("dependencies", ()), True)]
    groups += [(extra, False) for extra in project.get("optional-dependencies", {}).values()]
    for requirements, needed in groups:
        for requirement in requirements:
            match = _REQUIREMENT.match(requirement)
            if match and match[1] != project.get("name"):
                yield match[1], match[2].replace(" ", ""), needed


def within(version: str, asked: str) -> bool:
    """Return whether a release is in a range such as ``>=2.6,<3``; local parts do not count."""
    have = _numbers(version)
    for operator, bound in _BOUND.findall(asked):
        want = _numbers(bound)
        length = max(len(have), len(want))
        left = have + (0,) * (length - len(have))
        right = want + (0,) * (length - len(want))
        holds = {
            ">=": left >= right, "<=": left <= right, "==": left == right, "!=": left != right,
            "<": left < right, ">": left > right,
        }[operator]  # fmt: skip
        if not holds:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def encodings() -> dict[str, Any]:
    """Of the locale, the terminal and file names; whether the terminal takes Chinese."""
    terminal = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        chinese = bool(_SAMPLE.encode(terminal))
    except (UnicodeEncodeError, LookupError):
        chinese = False
    return {
        "locale": locale.getpreferredencoding(False),
        "terminal": terminal,
        "files": sys.getfilesystemencoding(),
        "chinese": chinese,
    }


def machine() -> dict[str, Any]:
    """System, processors, memory and disk, containers, and who runs this."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # Linux alone has it
        cores = os.cpu_count() or 1
    try:
        disk: int | None = shutil.disk_usage(".").free >> 20
    except OSError:
        disk = None
    total, free = memory()
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "cores": cores,
        "memory_mib": total,
        "free_memory_mib": free,
        "free_disk_mib": disk,
        "container": container(),
        "root": hasattr(os, "geteuid") and os.geteuid() == 0,
    }


def memory() -> tuple[int | None, int | None]:
    """MiB in all (or what a control group allows, if that is less), and MiB available."""
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", text("/proc/meminfo"), re.MULTILINE))
    if "MemTotal" in sizes:
        total: int | None = int(sizes["MemTotal"]) >> 10
    else:
        try:
            total = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
        except (AttributeError, OSError, ValueError):
            return None, None
    limit = text("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit() and total is not None:
        total = min(total, int(limit) >> 20)
    free = int(sizes["MemAvailable"]) >> 10 if "MemAvailable" in sizes else None
    return total, free


def container() -> str:
    """A word for what this seems to run in; empty where nothing points to a container."""
    kernel_name = text("/proc/sys/kernel/osrelease").lower()
    hints = {
        "docker": os.path.exists("/.dockerenv"),
        "podman": os.path.exists("/run/.containerenv"),
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ,
        os.environ.get("container", ""): True,  # noqa: SIM112  (systemd and podman name it so)
        "gvisor": "gvisor" in text("/proc/version").lower(),
        "wsl": "microsoft" in kernel_name,
    }
    return next((name for name, seen in hints.items() if name and seen), "")


def kernel() -> dict[str, Any]:
    """Return what isolation asks of a Linux kernel; ``ptrace_scope`` is None without Yama."""
    scope = text("/proc/sys/kernel/yama/ptrace_scope").strip()
    namespaces = text("/proc/sys/user/max_user_namespaces").strip()
    return {
        "landlock_abi": landlock.abi(),
        "seccomp": seccomp.unavailable() is None,
        "security_modules": text("/sys/kernel/security/lsm").strip(),
        "ptrace_scope": int(scope) if scope.isdigit() else None,
        "user_namespaces": int(namespaces) > 0 if namespaces.isdigit() else None,
    }


def text(path: str) -> str:
    """A file of the kernel's; empty where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def main(extras: list[str]) -> int:
    """``… doctor_facts EXTRA…``: say what an environment of the user's own lacks, if anything."""
    from autograder.course.messages import language
    from autograder.report.terminal import readable, say

    absent = lacking(extras)
    if absent:
        packages = " ".join(f"'{one}'" for one in absent)
        say(readable(language()), "lacks", python=sys.executable, packages=packages)
    return 2 if absent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

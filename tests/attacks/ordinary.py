"""Runs a command as an ordinary user, although Python may lie in a folder of root's own.

``python -m tests.attacks.ordinary UID COMMAND…`` (as root) gives this process a mount namespace
in which closed folders above Python and this project can be passed through, becomes the user,
and runs the command. Nothing of it can be seen outside of that process.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.course.labfile import ROOT

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x00020000, 4096, 16384, 1 << 18
_FIRST = 50_000  # user ids from here on are looked through for one without processes


def unused_user() -> int:
    """An id that no account and no process has."""
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            taken.add(process.stat().st_uid)
        except OSError:
            continue
    return next(uid for uid in range(_FIRST, _FIRST + 10_000) if uid not in taken)


def command_as(uid: int, command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` as ``uid``."""
    if uid == os.geteuid():
        return list(command)
    return [sys.executable, "-m", "tests.attacks.ordinary", str(uid), *command]


def unavailable() -> str | None:
    """Why no command can be run as an ordinary user, or None."""
    done = subprocess.run(
        command_as(unused_user(), [sys.executable, "-c", "import torch"]),
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1][:200]


def _closed(path: Path) -> Path | None:
    """The uppermost folder above ``path`` that others may not enter."""
    for folder in reversed(path.parents):
        if not stat.S_IMODE(folder.stat().st_mode) & 0o001:
            return folder
    return None


def _mount(source: str, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), bytes(target), kind.encode(), flags, data.encode()):
        code = ctypes.get_errno()
        raise OSError(code, f"mount {target}: {os.strerror(code)}")


def open_ways(trees: Sequence[Path]) -> None:
    """Make ``trees`` reachable for everybody in this process: closed folders are replaced."""
    closed: dict[Path, list[Path]] = {}
    for tree in trees:
        if (parent := _closed(tree)) is not None:
            closed.setdefault(parent, []).append(tree)
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare: no mount namespace of its own to be had")
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    for parent, found in closed.items():
        # Descriptors keep the trees within reach while their folder is hidden.
        kept = [(tree, os.open(tree, os.O_PATH)) for tree in found]
        _mount("tmpfs", parent, "tmpfs", 0, "mode=755")
        for tree, descriptor in kept:
            tree.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", tree, "", _MS_BIND | _MS_REC)
            os.close(descriptor)


def main(argv: Sequence[str]) -> None:
    """Become the user and run the command."""
    uid = int(argv[1])
    open_ways([Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT.resolve()])
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execv(argv[2], list(argv[2:]))


if __name__ == "__main__":
    main(sys.argv)

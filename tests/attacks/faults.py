"""Faults that no hand-in makes: the zygote is killed, the machine is busy (63, 64)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from autograder.course.records import Outcome
from tests.attacks.graded import Run, grade
from tests.attacks.world import World, children

BURNERS = 4
_BURN = "import time; end = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


def zygote_killed(world: World, folder: Path, uid: int) -> Run:
    """Grade, and kill the zygote (and nothing else) as soon as the first record is there."""
    killed: list[int] = []

    def meanwhile(process: subprocess.Popen[bytes], streams: bytes) -> None:
        if killed or b"[1/" not in streams:
            return
        for pid, command in children(process.pid).items():
            if "autograder.worker.zygote" in command:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    run = grade(world, "killed", folder, uid, meanwhile)
    if not killed:
        run.left.append("the zygote, which nobody could find to kill")
    return run


def busy(world: World, folder: Path, uid: int) -> Run:
    """Grade while other processes use every processor twice: root's from its very start."""
    burners = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(BURNERS)]

    def meanwhile(_: object, streams: bytes) -> None:
        if b"[1/" in streams:
            for burner in burners:
                burner.send_signal(signal.SIGCONT)

    try:
        if uid:
            for burner in burners:
                burner.send_signal(signal.SIGSTOP)
        return grade(world, "busy", folder, uid, meanwhile)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def never_less(run: Run, quiet: Run, *, equal: bool) -> list[str]:
    """Whether every record is that of a quiet run, or (unless ``equal``) not graded instead."""
    faults = list(run.left)
    ungraded = 0
    for student, record in quiet.records.items():
        results = {one["check"]: one for one in run.records.get(student, {}).get("results", ())}
        for wanted in record["results"]:
            got = results.get(wanted["check"])
            if got is not None and got["outcome"] == Outcome.NOT_GRADED and not equal:
                ungraded += got != wanted
            elif got != wanted:
                faults.append(f"{student}: {wanted['check']} is {got and got['outcome']}")
    if ungraded > sum(len(record["results"]) for record in quiet.records.values()) / 2:
        faults.append(f"{ungraded} checks were not graded")
    return faults

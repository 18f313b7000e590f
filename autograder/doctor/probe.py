"""Tries the jail without any grading around it, in a process of its own that needs no torch.

Three questions, one per process: which layers bind, and why not the others; does a jailed
process outlive the one that forked it; does the kernel end a loop that ignores signals. The
process only prints what it sees; whoever started it decides what that means.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from autograder.worker.jail import Jail, harden_parent
from autograder.worker.landlock import python_readable

STARTED, WENT_ON = "started", "went on"
OUTLIVES_SECONDS = 0.7  # how long an orphan lives that nothing ends
LOOP_CPU_SECONDS = 1
LOOP_PATIENCE = 1.8  # CPU seconds after which a loop ends that nothing ends
_MEMORY_BYTES = 1 << 30


def layers(jail: Jail) -> None:
    """Print ``{"layers": those that bound, "missing": why not the others}``."""
    missing = dict(jail.missing)
    _say(json.dumps({"layers": jail.enter(), "missing": missing}))


def orphan(jail: Jail) -> None:
    """Fork a jailed child and end at once; the child says so if it goes on living."""
    ready, tell = os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        jail.enter()
        _say(STARTED)
        os.write(tell, b".")
        while os.getppid() == parent:  # a busy machine lets it end late
            time.sleep(0.01)
        time.sleep(OUTLIVES_SECONDS)
        _say(WENT_ON)
        os._exit(0)
    os.read(ready, 1)
    os._exit(0)


def loop(jail: Jail) -> None:
    """Loop past the limit on CPU time, ignoring what can be ignored."""
    for name in ("SIGXCPU", "SIGTERM", "SIGALRM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    jail.enter()
    _say(STARTED)
    while time.process_time() < LOOP_PATIENCE:
        pass
    _say(WENT_ON)


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def main(argv: list[str]) -> None:
    """``python -I -c … ROOT QUESTION LAYERS_OFF`` (layers joined by commas; empty as a rule)."""
    question = {"layers": layers, "orphan": orphan, "loop": loop}[argv[2]]
    harden_parent()
    without = argv[3].split(",") if argv[3] else ()
    readable = python_readable()
    question(Jail.prepare(readable, _MEMORY_BYTES, LOOP_CPU_SECONDS, without))


if __name__ == "__main__":
    main(sys.argv)

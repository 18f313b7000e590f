"""Workers for a process that is no judge: ranks beside the one that is debugged, or recorded."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
from functools import cache, partial

from autograder.course.labfile import ROOT
from autograder.sandbox.forked import ForkedLink
from autograder.sandbox.link import Starter
from autograder.sandbox.spawned import SpawnedLink, clean_environment, command

MEMORY_BYTES = 2 << 30  # of each, beyond what it starts with


@cache
def starter() -> Starter:
    """How to get a worker here: from one zygote for this process, or by a spawn each."""
    if os.environ.get("AUTOGRADER_WORKER") == "spawn" or not sys.platform.startswith("linux"):
        return partial(SpawnedLink, ROOT, MEMORY_BYTES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        command("autograder.sandbox.zygote", ROOT, str(MEMORY_BYTES), str(theirs.fileno()), "", ""),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=clean_environment(),
        cwd=os.sep,
        pass_fds=(theirs.fileno(),),
        start_new_session=True,  # Ctrl-C ends what is debugged, and that ends this
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return partial(ForkedLink, ours)

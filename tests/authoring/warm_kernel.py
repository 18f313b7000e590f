"""Jupyter kernels that are forked from a process in which the heavy packages are imported.

Nothing of a course and no cell has run in it: a kernel begins as a new one does, only sooner.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "warm"
PACKAGES = (
    "ipykernel.kernelapp", "matplotlib.backends.backend_agg", "matplotlib.pyplot",
    "safetensors.torch", "tokenizers", "torch.distributed", "torch.utils.flop_counter",
)  # fmt: skip
# What Jupyter starts: it asks for a kernel and lives as long as that.
ASK = """
import os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
line = socket.socket(socket.AF_UNIX)
line.connect("\\0" + sys.argv[1])
line.sendall("\\n".join((os.getcwd(), sys.argv[2], "")).encode())
line.recv(1)
"""


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Jupyter finds a kernel called ``warm`` below ``folder``, where JUPYTER_PATH has to point."""
    address = secrets.token_hex()
    place = folder / "kernels" / NAME
    place.mkdir(parents=True)
    argv = [sys.executable, "-I", "-S", "-c", ASK, address, "{connection_file}"]
    spec = {"argv": argv, "display_name": NAME, "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    # -P: a kernel does not find what stands beside this file.
    with subprocess.Popen(
        [sys.executable, "-P", __file__, address], stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        try:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            yield
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # with a kernel that has not ended yet


def _serve(address: str) -> None:
    # Both are read by packages when they are imported; a kernel ends with its parent.
    os.environ |= {
        "JPY_PARENT_PID": str(os.getpid()),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    for package in PACKAGES:
        __import__(package)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a kernel
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + address)
        listener.listen()
        print("ready", flush=True)
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return _become_kernel(line)
            line.close()


def _become_kernel(line: socket.socket) -> None:
    from ipykernel.kernelapp import IPKernelApp

    with line.makefile(encoding="utf-8") as asked:
        folder, connection = asked.readline().rstrip("\n"), asked.readline().rstrip("\n")
    os.chdir(folder)
    IPKernelApp.launch_instance(argv=["-f", connection])


if __name__ == "__main__":
    _serve(sys.argv[1])

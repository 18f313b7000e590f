"""Runs a command with ``--dask`` of a cluster that lives as long: a scheduler and one worker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from autograder.course.labfile import ROOT


def main(command: Sequence[str]) -> int:
    """Start the cluster, run the command, end the cluster; the command's exit status."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        options = (address, "--nthreads", "1", "--no-nanny", "--local-directory", folder)
        machines = [
            _started("scheduler", "--host", "127.0.0.1", "--port", str(port)),
            _started("worker", *options),
        ]
        try:
            return subprocess.run([*command, "--dask", address], cwd=ROOT).returncode
        finally:
            for process in reversed(machines):
                process.terminate()
                process.wait(30)


def _started(kind: str, *options: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options, "--no-dashboard"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

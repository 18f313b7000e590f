"""A grader that only asks and compares: the floor under what grading can cost.

``python -m benchmarks.stripped LAB HIDDEN_CASES CLASS [CHECKS]`` grades a class in one process,
on public cases alone where no hidden ones are named, and prints the seconds of the last hand-in.
Left out is all that makes a grader: a process for each hand-in and its jail, messages packed and
unpacked, replays that find state, names of mistakes, marks, records and reports.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from autograder.checks.plan import collect
from autograder.course import labfile
from autograder.judge.runner import Runner
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources
from autograder.worker.loader import read_sources

SECONDS = 10.0  # of CPU for one request: a wrong hand-in may never end


def main(lab_name: str, hidden: str, folder: str, only: str = "") -> None:
    """Grade every hand-in of a folder; nothing is kept."""
    torch.set_num_threads(1)
    lab = labfile.load(labfile.find_lab(lab_name))
    plan = collect(lab.folder, ["--hidden-cases", hidden] if hidden else [])
    started = 0.0
    for path in sorted(Path(folder).iterdir()):
        started = time.monotonic()
        files, paths = read_sources(path, lab.files)
        transport = LocalTransport(Sources(files, paths, lab.given), seconds=SECONDS)
        Runner(plan, transport).run({}, set(only.split(",")) - {""})
        transport.close()
    print(time.monotonic() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])

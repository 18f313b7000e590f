"""From a save to the verdict: what somebody waits who works with ``make watch``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import IO

from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.records import Lab
from autograder.worker.loader import read_sources

SAVES = 5
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


def save_to_verdict(lab: Lab, folder: Path, saves: int = SAVES) -> float:
    """Seconds on the wall from a save of a right solution to the line behind its scoreboard.

    Args:
        folder: empty; the files that are saved lie there.
        saves: how often; the median counts.

    Raises:
        RuntimeError: ``watch`` ended.
    """
    texts, _ = read_sources(SOLUTIONS / lab.name, lab.files)
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "autograder", "watch", "--lab", lab.name, "--lang", "en"]
    process = subprocess.Popen(
        [*command, "--folder", str(folder)],
        cwd=ROOT,
        env=os.environ | _ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdin is not None and process.stdout is not None
    seconds = []
    try:
        _until(process.stdout, "q: quit")
        first = lab.files[0]
        for number in range(saves):
            time.sleep(0.5)  # as after a verdict that somebody reads
            started = time.monotonic()
            (folder / first).write_text(f"{texts[first]}# {number}\n", encoding="utf-8")
            _until(process.stdout, "after you saved")
            seconds.append(time.monotonic() - started)
            _until(process.stdout, "q: quit")
        process.stdin.write("q\n")
        process.stdin.close()
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return median(seconds)


def import_torch() -> float:
    """Seconds on the wall of ``python -c "import torch"``."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, cwd=ROOT)
    return time.monotonic() - started


def _until(stream: IO[str], words: str) -> None:
    for line in stream:
        if words in line:
            return
    raise RuntimeError("watch ended before its verdict")

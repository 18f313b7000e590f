"""What has to stand before a class is graded: hidden cases, and cases on real weights."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.grading.secret import digest_of_cases


class PrepareError(ValueError):
    """The reference process failed; the text carries its last line."""


@dataclass(frozen=True)
class Prepared:
    """Files of cases; ``weights`` is the local folder of real weights, or None."""

    hidden: Path | None
    real: Path | None = None
    weights: Path | None = None


class Reference:
    """The process that computes expectations, running beside whatever else starts up."""

    def __init__(self, lab: str, out: Path, secret: bytes | None, weights: str | None) -> None:
        self._hidden: Path | None = None
        self._processes: list[subprocess.Popen[str]] = []
        if secret is not None and (SOLUTIONS / lab / "cases.py").is_file():
            self._hidden = out / ".cases" / f"{digest_of_cases(lab, secret)}.safetensors"
            if not self._hidden.exists():
                self._start([lab, str(self._hidden)], secret.hex())
        self._weights = weights

    def _start(self, arguments: list[str], first_line: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "autograder.reference.build", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert process.stdin is not None
        process.stdin.write(first_line + "\n")
        process.stdin.close()
        self._processes.append(process)

    def wait(self) -> Prepared:
        """Wait for the files.

        Raises:
            PrepareError: a process failed; the text carries what it said last.
        """
        for process in self._processes:
            assert process.stdout is not None
            said = process.stdout.read()
            if process.wait() != 0:
                last = (said.strip().splitlines() or ["no message"])[-1]
                raise PrepareError(f"the cases could not be built: {last}")
        return Prepared(self._hidden)

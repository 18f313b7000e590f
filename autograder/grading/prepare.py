"""What has to stand before a class is graded: hidden cases, and cases on real weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.grading.inputs import RealWeights as RealWeights
from autograder.grading.secret import digest_of_cases


class PrepareError(ValueError):
    """The reference process failed; the text carries its last line."""


def hidden_cases(lab: str, out: Path, secret: bytes) -> Path:
    """File of the hidden cases for this secret, built unless it is there already.

    Raises:
        PrepareError: they could not be built, for instance in a copy without solutions.
    """
    if not (SOLUTIONS / lab / "cases").is_dir():
        raise PrepareError(f"solutions/{lab}/cases: absent; grading needs an instructor's copy")
    path = out / ".cases" / f"{digest_of_cases(lab, secret)}.safetensors"
    if not path.exists():
        _reference(["hidden", lab, str(path)], secret.hex())
    return path


def real_weights(lab: str, out: Path, weights: str) -> RealWeights:
    """Cases on real Qwen3 weights, computed by the reference process.

    Raises:
        PrepareError: the weights are not to be had, or are no dense Qwen3.
    """
    path = out / ".cases" / "real.safetensors"
    said = json.loads(_reference(["real", lab, str(path), weights], ""))
    return RealWeights(path, Path(said["folder"]), tuple(said["prefixes"]), said["mib"])


def _reference(arguments: list[str], first_line: str) -> str:
    """Run the process that knows the answers; returns the last line it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "autograder.reference.build", *arguments],
        input=first_line + "\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode != 0:
        raise PrepareError(f"the cases could not be built: {last or 'no message'}")
    return last

"""Cases on real weights for a single hand-in: instructors' copies can make them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.course import labfile
from autograder.grading import prepare
from autograder.grading.inputs import RealWeights


@contextmanager
def of(lab_name: str, weights: str) -> Iterator[RealWeights | None]:
    """Cases of a lab on ``weights`` (a folder or hub id); None after a sentence on stderr.

    What the checks compare with is gone at the end.

    Raises:
        LabError: no lab goes by that name.
    """
    lab = labfile.load(labfile.find_lab(lab_name or "2"))
    with tempfile.TemporaryDirectory(prefix="qwen3-labs-") as folder:  # beside no student's file
        try:
            real = prepare.real_weights(lab.name, Path(folder), weights)
        except prepare.PrepareError as error:
            print(f"autograder: {error}", file=sys.stderr)
            real = None
        yield real

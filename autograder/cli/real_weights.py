"""Cases on real weights for a single hand-in: instructors' copies can make them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from autograder.course import labfile
from autograder.grading import prepare
from autograder.grading.inputs import RealWeights


def of(lab_name: str, weights: str) -> RealWeights | None:
    """Cases of a lab on ``weights`` (a folder or hub id); None after a sentence on stderr.

    Raises:
        LabError: no lab goes by that name.
    """
    lab = labfile.load(labfile.find_lab(lab_name or "2"))
    try:
        # Beside nothing of the student's: the file holds only what the checks compare with.
        folder = Path(tempfile.mkdtemp(prefix="qwen3-labs-"))
        return prepare.real_weights(lab.name, folder, weights)
    except prepare.PrepareError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return None

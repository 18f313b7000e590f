"""What a crew takes beside the lab itself: banks of fingerprints, and real weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab


@dataclass(frozen=True)
class RealWeights:
    """Cases on real weights, and what the zygote maps for them."""

    cases: Path
    folder: Path
    prefixes: tuple[str, ...]
    memory_mib: int


def banks(lab: Lab) -> dict[str, Path]:
    """Where a lab's banks of fingerprints lie, by the judge's option; either may be absent."""
    return {
        "--fingerprints": lab.folder / "fingerprints.bank",
        "--pair-fingerprints": SOLUTIONS / lab.name / "pairs.bank",
    }

"""What doctor found out, as one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.grading.trials.probes import Layers
    from autograder.grading.trials.records import Finding
    from autograder.grading.trials.verdict import Promise


@dataclass(frozen=True)
class Diagnosis:
    """Everything that doctor found out."""

    facts: Mapping[str, Any]
    worker: str
    level: str
    layers: Layers
    findings: tuple[Finding, ...]
    promises: tuple[Promise, ...]
    advice: tuple[str, ...]
    not_tried: str | None
    status: int
    seconds: float

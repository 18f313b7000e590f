"""What ``grade`` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder.grading.shards import Shard


@dataclass(frozen=True)
class Wanted:
    """The command line of ``grade``; see ``python -m autograder grade --help``."""

    submissions: Path
    lab: str
    out: Path
    language: str
    secret_file: Path | None = None
    jobs: int = 1
    weights: str | None = None
    least: str = "strong"
    resume: bool = False
    only: tuple[str, ...] = ()
    keep_outputs: bool = False
    overrides: Path | None = None
    pattern: str | None = None
    attempt: str = "last"  # or "best"
    roster: Path | None = None
    course: Path | None = None
    shard: Shard | None = None
    dask: str | None = None  # address of a scheduler

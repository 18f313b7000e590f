"""How many hidden cases a lab's grader runs: a number that students may know, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

FILE = "hidden_cases.json"


def dump(count: int) -> str:
    """The text of a lab's file."""
    return json.dumps({"hidden_cases": count}) + "\n"


def of(folder: Path) -> int | None:
    """The number for the lab in ``folder``; None where the file is absent or damaged."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))["hidden_cases"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None

"""``compare``: what changed between two gradings of a class, with the exit status of ``diff``."""

from __future__ import annotations

import json
from pathlib import Path

from autograder.report.class_stream import opened
from autograder.report.compare import compare
from autograder.report.compare_text import plain, text


def run(before: Path, after: Path, language: str, *, as_json: bool) -> int:
    """Print what changed from the graded folder ``before`` to ``after``.

    Returns:
        0 when every student has the same, 1 when there are differences.

    Raises:
        ValueError: a folder holds no graded class, or they are of different labs.
    """
    comparison = compare(opened(before), opened(after))
    if as_json:
        print(json.dumps(plain(comparison), ensure_ascii=False, indent=1))
    else:
        print(text(comparison, language))
    return 0 if comparison.same else 1

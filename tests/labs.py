"""Which labs `make check` proves: lab 2, and those that differ from what was released."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from autograder.course.labfile import ROOT

ALWAYS = "lab2"
PLACES = ("labs", "solutions", "tests/styles", "tests/proof", "tests/mutation", "tests/diagnosis")
# Tests that prove something of one lab, which their id names.
_OF_ONE_LAB = re.compile(
    r"tests/(?:(?:proof|mutation|styles|diagnosis)/|judge/test_odd_replies|reference/|commands/test_serve)"
    r".*?(lab\d+)"
)


def is_left_out(nodeid: str) -> bool:
    """Whether a test proves something of a lab that `make check` leaves to `make check-all`."""
    lab = _OF_ONE_LAB.match(nodeid)
    return lab is not None and lab[1] not in {ALWAYS, *changed_labs()}


@cache
def changed_labs(root: Path = ROOT) -> frozenset[str]:
    """Labs that differ from the last release tag, or from ``origin/main`` where there is none.

    Returns:
        Their short names; none where there is neither, or no git.
    """

    def git(*words: str) -> list[str]:
        line = ["git", "-C", str(root), *words]
        try:
            return subprocess.run(line, capture_output=True, text=True, check=False).stdout.split()
        except OSError:
            return []

    base = git("describe", "--tags", "--abbrev=0") or ["origin/main"]
    found = git("diff", "--name-only", *base, "--", *PLACES)
    found += git("ls-files", "--others", "--exclude-standard", "--", *PLACES)
    return frozenset(lab for path in found for lab in re.findall(r"[/_](lab\d+)[_./]", path))

"""Runs ``python -m autograder`` on some checks only: ``CHECK,CHECK,… COMMAND…``.

What ranks cost is counted apart: they are processes of their own, and no bare call is like them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from autograder.cli.main import main as program
from autograder.grading import run
from autograder.grading.judge_process import Options


def main(argv: Sequence[str]) -> int:
    """The exit status of the command."""
    checks, *command = argv
    vars(run)["Options"] = partial(Options, checks=tuple(checks.split(",")))
    return program(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

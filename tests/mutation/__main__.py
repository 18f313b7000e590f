"""``python -m tests.mutation [--lab 2]``: every mutant of a lab; the last line counts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autograder.course import labfile
from tests.mutation.run import has_cases, run, short


def main(argv: Sequence[str]) -> int:
    """0 when every mutant is killed, or is on the list and shown equivalent."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--lab", default="2", help="its number or folder")
    chosen = parser.parse_args(argv)
    try:
        lab = labfile.load(labfile.find_lab(chosen.lab))
    except labfile.LabError as error:
        print(error)
        return 2
    if not has_cases(short(lab.name)):
        print(f"{lab.name}: no random cases in tests/mutation/{short(lab.name)}")
        return 2
    tally = run(lab)
    for fault in tally.faults:
        print(fault)
    print(tally.line)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Builds hidden cases in a process of its own: the secret comes on standard input.

``python -m autograder.reference.build LAB_NAME OUT [--weights FOLDER]``. Without a secret
(an empty line) only the cases on real weights are built.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from autograder.course.labfile import SOLUTIONS
from autograder.reference import cases, recipes


def write_private(path: Path, blob: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(blob)
    part.replace(path)


def main(argv: list[str]) -> int:
    """Build the cases of one lab; see the module's docstring."""
    lab, out = argv[1], Path(argv[2])
    secret = bytes.fromhex(sys.stdin.readline().strip())
    found = recipes.of_lab(SOLUTIONS / lab)
    write_private(out, cases.dump(recipes.build(found, secret)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

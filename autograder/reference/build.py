"""Builds cases in a process of its own; the secret comes on standard input, never in argv.

``python -m autograder.reference.build hidden LAB OUT`` reads the secret as a line of hex.
``python -m autograder.reference.build real LAB OUT WEIGHTS`` computes expectations on real
weights and prints, as JSON, what the zygote has to map: ``{"folder", "prefixes", "mib"}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from autograder.course.labfile import SOLUTIONS
from autograder.reference import cases, recipes

# A module in float32, its float32 state and the activations of a few tokens, over bf16 bytes.
MEMORY_FACTOR = 6


def write_private(path: Path, blob: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(blob)
    part.replace(path)


def folder_of(weights: str) -> Path:
    """A local folder of weights: the path itself, or a snapshot of a hub id.

    Raises:
        ValueError: neither is to be had (says why).
    """
    path = Path(weights)
    if path.is_dir():
        return path.resolve()
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ValueError(f"{weights}: no such folder; a hub id needs huggingface_hub") from None
    try:
        patterns = ["*.json", "*.safetensors"]
        return Path(snapshot_download(weights, allow_patterns=patterns))
    except Exception as error:  # every way a network, a cache or a name can fail
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ValueError(f"{weights}: no such folder, and the hub says: {reason}") from None


def _build_real(lab: str, out: Path, weights: str) -> None:
    module = recipes.package_of(SOLUTIONS / lab)
    if not hasattr(module, "real_cases"):
        raise ValueError(f"{lab} has no checks on real weights; leave --weights out")
    folder = folder_of(weights)
    made = [
        recipes.finish(draft, f"{name}-{number}", name, hidden=False)
        for name, drafts in module.real_cases(folder).items()
        for number, draft in enumerate(drafts)
    ]
    write_private(out, cases.dump(made))
    prefixes = sorted({case["mapped"] for case in made})
    largest = max(case["bytes"] for case in made)
    mib = MEMORY_FACTOR * largest >> 20
    print(json.dumps({"folder": str(folder), "prefixes": prefixes, "mib": mib}))


def main(argv: list[str]) -> int:
    """Build the cases of one lab; see the module's docstring."""
    kind, lab, out = argv[1], argv[2], Path(argv[3])
    try:
        if kind == "real":
            _build_real(lab, out, argv[4])
        else:
            secret = bytes.fromhex(sys.stdin.readline().strip())
            found = recipes.of_lab(SOLUTIONS / lab)
            write_private(out, cases.dump(recipes.build(found, secret)))
    except ValueError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

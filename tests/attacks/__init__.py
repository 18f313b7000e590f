"""Attacks and faults, graded beside honest hand-ins: `python -m tests.attacks [--ablate]`."""

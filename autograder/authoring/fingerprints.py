"""Makes a lab's fingerprint banks: runs the checks on the solution with every mistake in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from autograder.authoring import courses
from autograder.authoring.answering import (
    Answers,
    Shorts,
    catalogue_of,
    reference_of,
    sources_of,
    together,
)
from autograder.authoring.place import Place
from autograder.diagnosis.bank import VERSION, Bank, BankError, load
from autograder.diagnosis.fingerprints import Fingerprints, fingerprints
from autograder.diagnosis.misconceptions import MisconceptionError
from autograder.diagnosis.short import shortened
from autograder.harness.collected import collect

_NO_CHECKS = ("probes.py", "confirmations.py")


def made_of(place: Place) -> str:
    """Hash of everything that fingerprints are made from, but for the libraries."""
    solution = [*(place.solution / name for name in place.lab.files), place.misconceptions]
    files = (place.folder / "checks").glob("*.py")
    checks = sorted(path for path in files if path.name not in _NO_CHECKS)
    told = hashlib.sha256(b"%d" % VERSION)
    for path in (*solution, *checks, place.folder / "lab.toml", place.cases):
        told.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()


def made_of_singles(place: Place) -> str:
    """The same, with what else the bank that students get holds."""
    stages = place.solution / "stages.py"
    text = stages.read_bytes() if stages.is_file() else b""
    return hashlib.sha256(made_of(place).encode() + text).hexdigest()


def is_made_of(path: Path, sources: str) -> bool:
    """Whether the bank at ``path`` was made from sources of this hash."""
    try:
        return load(path).made_of == sources
    except BankError:
        return False


def build(place: Place) -> Bank:
    """The bank of single mistakes, which students get too.

    Raises:
        MisconceptionError: the list is wrong, or a patch does not fit.
        ValueError: the checks cannot be collected.
    """
    catalogue, sources = catalogue_of(place), sources_of(place)
    plan = collect(place.folder)
    reference, random = reference_of(plan, sources)
    answers = Answers(plan)
    traces: list[tuple[tuple[str, ...], Shorts]] = []
    for entry in catalogue.entries:
        made = together((entry,), sources)
        if made is None:
            raise MisconceptionError(f"entry {entry.id}: its patches do not fit the solution")
        traces.append(((entry.class_name,), answers.short(made)))
    found: dict[str, Fingerprints] = {}
    for name, right in reference.items():
        prints = fingerprints(shortened(right), [(c, t[name]) for c, t in traces], random)
        if prints is not None:
            found[name] = prints
    stages = courses.of_lab(place, plan)
    return Bank(found, catalogue.classes, made_of_singles(place), stages)

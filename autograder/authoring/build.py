"""``build``: writes everything that is generated for a lab, and says what it did."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring import (
    fingerprints,
    hidden_counts,
    pair_fingerprints,
    prove_cases,
    spots,
    stubs,
)
from autograder.authoring.place import Place
from autograder.authoring.stubs import Fate
from autograder.diagnosis import bank
from autograder.reference import cases


def run(lab_name: str, *, force: bool = False) -> int:
    """Build everything that is generated for a lab, and print what became of each file.

    Returns:
        0, also when files were left alone: they are named, with the reason.

    Raises:
        LabError: no lab goes by that name, or its lab.toml is wrong.
        ValueError: a source cannot be built from (names it).
    """
    for line in build(Place.find(lab_name), force=force):
        print(line, flush=True)
    return 0


def build(place: Place, *, force: bool = False) -> Iterator[str]:
    """Write stubs, cases, questions, fingerprints, notebooks; what is right already stays.

    Yields:
        One line per file: what became of it, its path, and why it was left alone.
    """
    for path, fate in stubs.write(place.lab, place.solutions, force=force).items():
        yield _line(place, path, fate)
        if fate is Fate.LEFT:
            yield "           it was changed by hand; --force overwrites it"
    yield _line(place, place.cases, write_cases(place))
    count = hidden_counts.target(place)
    yield _line(place, count, _written(count, hidden_counts.made(place)))
    questions = spots.made(place)
    if questions is not None:
        yield _line(place, spots.target(place), _written(spots.target(place), questions))
    if place.misconceptions.exists():
        yield from banks(place)
    if not place.notebooks:
        return
    if importlib.util.find_spec("nbformat") is None:
        yield "left       notebooks: to build them, pip install nbformat"
        return
    from autograder.authoring import notebooks

    for source in place.notebooks:
        target = source.with_suffix(".ipynb")
        stale = notebooks.stale(source, target)
        if stale:
            notebooks.write(source, target)
        yield _line(place, target, Fate.WRITTEN if stale else Fate.UNCHANGED)


def write_cases(place: Place) -> Fate:
    """Write the public cases, unless those that are there agree with the recipes."""
    made = prove_cases.fresh(place)
    try:
        kept = cases.load(place.cases)
        known = cases.release(place.cases) != ""
    except cases.CasesError:  # absent or broken: then it is written
        kept, known = (), False
    if known and not list(prove_cases.differences(kept, made)):
        return Fate.UNCHANGED
    _write(place.cases, cases.dump(made, torch_release=prove_cases.torch_release()))
    return Fate.WRITTEN


def banks(place: Place) -> Iterator[str]:
    """Write the banks of fingerprints, unless they were made of what is there now."""
    singles = None
    if not fingerprints.is_made_of(place.fingerprints, fingerprints.made_of_singles(place)):
        singles = fingerprints.build(place)
        _write(place.fingerprints, bank.dump(singles))
    yield _line(place, place.fingerprints, Fate.WRITTEN if singles else Fate.UNCHANGED)
    pairs_stale = not fingerprints.is_made_of(place.pairs, fingerprints.made_of(place))
    if pairs_stale:
        made = pair_fingerprints.build(place, singles or bank.load(place.fingerprints))
        _write(place.pairs, bank.dump(made))
    yield _line(place, place.pairs, Fate.WRITTEN if pairs_stale else Fate.UNCHANGED)


def _written(path: Path, text: str) -> Fate:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return Fate.UNCHANGED
    _write(path, text.encode())
    return Fate.WRITTEN


def _write(path: Path, blob: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(blob)
    part.replace(path)


def _line(place: Place, path: Path, fate: Fate) -> str:
    return f"{fate.value:10} {place.shown(path)}"

"""``build``: writes what is generated (stubs, public cases, notebooks), and says what it did."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring import prove_cases, stubs
from autograder.authoring.place import Place
from autograder.authoring.stubs import Fate
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
    """Write stubs, public cases and notebooks; what is right already stays untouched.

    Yields:
        One line per file: what became of it, its path, and why it was left alone.
    """
    for path, fate in stubs.write(place.lab, place.solutions, force=force).items():
        yield _line(place, path, fate)
        if fate is Fate.LEFT:
            yield "           it was changed by hand; --force overwrites it"
    yield _line(place, place.cases, write_cases(place))
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
    part = place.cases.with_name(f"{place.cases.name}.{os.getpid()}")
    part.write_bytes(cases.dump(made, torch_release=prove_cases.torch_release()))
    part.replace(place.cases)
    return Fate.WRITTEN


def _line(place: Place, path: Path, fate: Fate) -> str:
    return f"{fate.value:10} {place.shown(path)}"

"""Promises about cases: the recipes give what is checked in, and the checks use them all."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autograder.authoring.place import NotProvedError, Place
from autograder.course import asked
from autograder.reference import cases
from autograder.reference.cases import Case
from autograder.sandbox.wire import Tensor

# float64 rounded to float32: another processor may round the last bit another way.
TOLERANCE = 1e-6
_REAL = "_real"  # such recipes need real weights, and are built while grading
_INFINITE = 1e30  # masks hold such values; they say nothing about the scale of the others


def stale(place: Place) -> Iterator[str]:
    """Differences between the checked-in public cases and what the recipes give.

    Raises:
        NotProvedError: they differ, but another torch release drew them.
    """
    kept, made = cases.load(place.cases), fresh(place)
    found = list(differences(kept, made))
    drawn_by, here = cases.release(place.cases), torch_release()
    where = place.shown(place.cases)
    same_kind = [(c.name, c.recipe) for c in kept] == [(c.name, c.recipe) for c in made]
    if found and same_kind and drawn_by not in ("", here):
        raise NotProvedError(
            f"{where} was drawn by torch {drawn_by}; torch {here} draws other numbers "
            f"({found[0]}). Audit under torch {drawn_by}, or build anew"
        )
    for difference in found:
        yield f"{where}: {difference}; run: {asked.command('build')}"


def fresh(place: Place) -> tuple[Case, ...]:
    """The public cases as the recipes give them now."""
    from autograder.reference import recipes

    return recipes.build(recipes.of_lab(place.solution), None)


def torch_release() -> str:
    """The release of the torch at hand, without its build (``+cpu``)."""
    import torch

    return torch.__version__.split("+")[0]


def differences(kept: Sequence[Case], made: Sequence[Case]) -> Iterator[str]:
    """What tells two sets of cases apart, in words.

    Configs, scalars and whole numbers have to be equal, other tensors up to ``TOLERANCE``.
    """
    old, new = {case.name: case for case in kept}, {case.name: case for case in made}
    for name in sorted(old.keys() - new.keys()):
        yield f"no recipe gives the case {name} any more"
    for name in sorted(new.keys() - old.keys()):
        yield f"the case {name} is absent"
    for name in sorted(old.keys() & new.keys()):
        one, other = old[name], new[name]
        for part in ("recipe", "hidden", "about", "config", "values"):
            if getattr(one, part) != getattr(other, part):
                yield f"the case {name} has another {part}"
        if one.tensors.keys() != other.tensors.keys():
            odd = ", ".join(sorted(one.tensors.keys() ^ other.tensors.keys()))
            yield f"the case {name} has other tensors ({odd})"
        for key in sorted(one.tensors.keys() & other.tensors.keys()):
            if not _near(one.tensors[key], other.tensors[key]):
                yield f"the case {name} has other values in {key}"


def _near(one: Tensor, other: Tensor) -> bool:
    if one == other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape or "float" not in one.dtype:
        return False
    have, want = one.array.astype(np.float64), other.array.astype(np.float64)
    usual: NDArray[np.float64] = want[np.abs(want) < _INFINITE]
    scale = float(np.sqrt((usual**2).mean())) if usual.size else 0.0
    return np.allclose(have, want, rtol=TOLERANCE, atol=TOLERANCE * scale)


def unmatched(place: Place) -> Iterator[str]:
    """Checks without recipes, recipes without checks, and test functions that nobody runs."""
    from autograder.reference import recipes

    known = {recipe.name for recipe in recipes.of_lab(place.solution)}
    wanted = _recipes_of_checks(place)
    listed = {check.name: check for check in place.lab.checks}
    toml = place.shown(place.folder / "lab.toml")
    recipes_file = place.shown(place.solution / "cases")
    for test, (path, names) in wanted.items():
        where = f"{place.shown(path)}: {test}"
        if test not in listed:
            yield f"{where} is no check of {toml}; list it, or delete it"
        if not names:
            yield f"{where} asks for no cases; mark it with @cases(…)"
        for name in names:
            optional = name.endswith(_REAL) and test in listed and listed[test].optional
            if name not in known and not optional:
                yield f"{where} asks for {name}, and {recipes_file} has no such recipe"
    used = {name for _, names in wanted.values() for name in names}
    for name in sorted(known - used):
        yield f"{recipes_file}: no check uses the recipe {name}; delete it"


def _recipes_of_checks(place: Place) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """File and recipes of every test function, from its mark."""
    found: dict[str, tuple[Path, tuple[str, ...]]] = {}
    for path in sorted((place.folder / "checks").glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"{place.name}_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, item in vars(module).items():
            if name.startswith("test_") and callable(item):
                marks = [mark for mark in getattr(item, "pytestmark", ()) if mark.name == "cases"]
                found[name] = (path, tuple(recipe for mark in marks for recipe in mark.args))
    return found

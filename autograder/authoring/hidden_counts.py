"""The number of hidden cases that students are told, counted from the recipes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.place import Place, read
from autograder.course import asked, hidden_count
from autograder.reference import recipes


def made(place: Place) -> str:
    """The text of the lab's file.

    Raises:
        CasesError: the lab has no recipes.
    """
    return hidden_count.dump(sum(one.hidden for one in recipes.of_lab(place.solution)))


def stale(place: Place) -> Iterator[str]:
    """A file that is absent, or does not hold that number."""
    path = target(place)
    if not path.is_file() or read(path) != made(place):
        yield f"{place.shown(path)} is not what the recipes give; run: {asked.command('build')}"


def target(place: Place) -> Path:
    """Where it lies."""
    return place.folder / hidden_count.FILE

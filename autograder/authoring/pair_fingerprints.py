"""The bank of two mistakes at once, for graders: too many for all items, so for telling ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autograder.authoring.answering import (
    Answers,
    catalogue_of,
    reference_of,
    sources_of,
    together,
)
from autograder.authoring.fingerprints import made_of
from autograder.authoring.place import Place
from autograder.diagnosis.bank import Bank
from autograder.diagnosis.fingerprints import FAR, Fingerprints, fingerprints
from autograder.diagnosis.items import Trace
from autograder.diagnosis.short import Short, shortened
from autograder.harness.collected import collect

WIDTH = 3  # numbers per item: with a dozen items these are enough
APART = 1e-2  # an item tells two mistakes apart when they are farther from each other than this


def build(place: Place, singles: Bank) -> Bank:
    """Fingerprints of all pairs of mistakes that show in one exercise.

    Those whose answers are those of one mistake alone stay, too: a hand-in may not be asked what
    tells another pair from them, and then neither may be named.

    Raises:
        MisconceptionError: the list is wrong.
        ValueError: the checks cannot be collected.
    """
    catalogue, sources = catalogue_of(place), sources_of(place)
    plan = collect(place.folder)
    telling = {name: telling_items(prints) for name, prints in singles.exercises.items()}
    shows = {name: {c for (c,) in prints.mistakes} for name, prints in singles.exercises.items()}
    reference, random = reference_of(plan, sources)
    answers = Answers(plan)
    kept: dict[str, list[tuple[tuple[str, ...], dict[str, Short]]]] = {name: [] for name in telling}
    # Every entry, since those of one class may differ in company.
    for entries in combinations(catalogue.entries, 2):
        pair = tuple(entry.class_name for entry in entries)
        both = [name for name, classes in shows.items() if classes.issuperset(pair)]
        made = together(entries, sources) if both and len(set(pair)) > 1 else None
        if made is None:
            continue
        for name, short in answers.short(made, {n: telling[n] for n in both}, WIDTH).items():
            kept[name].append((pair, short))
    found = {
        name: prints
        for name, traces in kept.items()
        if (prints := _prints(reference[name], traces, telling[name], random)) is not None
    }
    return Bank(found, {}, made_of(place))


def _prints(
    reference: Trace,
    traces: list[tuple[tuple[str, ...], dict[str, Short]]],
    telling: list[str],
    random: frozenset[str],
) -> Fingerprints | None:
    right = {key: item for key, item in reference.items() if key in telling}
    return fingerprints(shortened(right, WIDTH), traces, random)


def telling_items(prints: Fingerprints) -> list[str]:
    """Few items that tell every single mistake from every other and from the right solution."""
    apart = [_apart(prints, column) for column in range(len(prints.items))]
    missing = np.logical_or.reduce(apart)
    chosen: list[int] = []
    while missing.any():
        gains = [int((tells & missing).sum()) for tells in apart]
        best = int(np.argmax(gains))
        chosen.append(best)
        missing = missing & ~apart[best]
    return [prints.items[column][0] for column in chosen]


def _apart(prints: Fingerprints, column: int) -> NDArray[np.bool_]:
    """``[mistakes + 1, mistakes + 1]``: which are told apart by an item; the last is right."""
    rows = np.append(prints.rows[:, column], prints.reference[column])
    vectors, norms = prints.vectors[rows].astype(np.float64), prints.norms[rows]
    gaps = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    gaps *= prints.weights[column]
    gaps /= np.maximum(np.maximum(norms[:, None], norms[None]), 1e-30)
    forms = np.array([prints.forms[row] if row >= 0 else "" for row in rows])
    found: NDArray[np.bool_] = np.where(forms[:, None] == forms[None], gaps, FAR) > APART
    return found

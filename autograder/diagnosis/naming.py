"""From fingerprints to names: which known mistakes give exactly these answers.

A mistake is named when the answers are those of its class and clearly of no other. Everything
else is said as less: what it looks like, or nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from autograder.course.records import Certainty
from autograder.diagnosis.bank import Bank
from autograder.diagnosis.fingerprints import KIND, Fingerprints
from autograder.diagnosis.items import Trace

NEAR = 1e-3  # relative: farther than this nothing is named
LIKE = 0.1  # and beyond this nothing looks like anything
LEAD = 3.0  # how many times farther every other class has to be
NOISE = 1e-5  # of right code in another style: nearer than this is not "nearer"
FEW = 3  # of different groups: more help nobody
Classes = tuple[str, ...]


@dataclass(frozen=True)
class Naming:
    """Mistakes that were recognised in some exercises.

    ``classes`` act together; with ``either`` it is one of them, which cannot be told; with
    ``partly`` there is another mistake beside them, which cannot be told either. ``within`` is
    the only check in which the answers are exactly theirs, if it is one alone.
    """

    exercises: tuple[str, ...]
    certainty: Certainty
    classes: Classes = ()
    either: bool = False
    partly: bool = False
    within: str = ""


def names(
    bank: Bank, pairs: Mapping[str, Fingerprints], failed: Mapping[str, Trace]
) -> tuple[Naming, ...]:
    """Return what explains the answers of a hand-in, the fewest mistakes first.

    Args:
        bank: the single mistakes.
        pairs: two mistakes at a time, by exercise; empty where only singles are known.
        failed: what came back in each exercise that failed.
    """
    singles = {
        exercise: prints
        for exercise, trace in failed.items()
        if (prints := bank.exercises.get(exercise)) is not None and not prints.is_strange(trace)
    }
    ranked = {e: _ranked(singles.get(e), trace) for e, trace in failed.items()}
    found: list[Naming] = []
    left = {
        exercise: matches
        for exercise, order in ranked.items()
        if (matches := _matches(order)) and _leans(singles[exercise], failed[exercise], matches)
    }
    vague = {e for e in left if ranked[e][0][0] >= KIND}
    while left:
        naming = _next(bank, left, failed.keys())
        if vague.issuperset(naming.exercises):
            naming = _grounded(naming, singles, failed)
        found.append(naming)
        left = {e: m for e, m in left.items() if e not in naming.exercises}
    for exercise in failed:
        if any(exercise in naming.exercises for naming in found):
            continue
        trace, prints = failed[exercise], singles.get(exercise)
        fits: dict[Classes, float] = {}
        asked: set[str] = set()
        if prints is not None and (both := pairs.get(exercise)) is not None:
            out = prints.ruled_out(trace)
            matches = [
                pair
                for pair in _matches(_ranked(both, trace))
                if not all(out[_numbers(prints, (name,))].all() for name in pair)
            ]
            fits = {pair: _fit(prints, pair, trace) for pair in matches}
            if not any(
                both.agrees(trace, number, clearly=True)
                for pair in matches
                for number in _numbers(both, pair)
            ):
                fits = {}  # whatever changes next to nothing would do as well
            asked = {
                name
                for pair in fits
                for name in pair
                if any(prints.was_asked(trace, number) for number in _numbers(prints, (name,)))
            }
        inside = _within(bank, exercise, trace)
        like = _like(exercise, prints, trace, ranked[exercise])
        found.append(_pair(exercise, fits, asked) or inside or like)
    return tuple(_merged(found))


def _grounded(
    naming: Naming, singles: Mapping[str, Fingerprints], failed: Mapping[str, Trace]
) -> Naming:
    """Return what errors of one kind allow to say: alone nothing, as anything may raise them."""
    classes = tuple(
        name
        for name in naming.classes
        if any(
            singles[exercise].agrees(failed[exercise], number)
            for exercise in naming.exercises
            for number in _numbers(singles[exercise], (name,))
        )
    )
    if not classes:
        return Naming(naming.exercises, Certainty.UNKNOWN)
    certainty = naming.certainty
    if len(naming.exercises) == 1 and certainty is Certainty.NAMED:
        certainty = Certainty.LOOKS_LIKE
    return replace(naming, certainty=certainty, classes=classes, either=len(classes) > 1)


def _within(bank: Bank, exercise: str, trace: Trace) -> Naming | None:
    """Return the first check that a known mistake answers so, where the whole is unknown.

    Nothing may be right that the mistake makes wrong.
    """
    prints = bank.exercises.get(exercise)
    if prints is None:
        return None
    out = prints.ruled_out(trace)
    for check in dict.fromkeys(key.split("/", 1)[0] for key in trace):
        part = {key: item for key, item in trace.items() if key.split("/", 1)[0] == check}
        matches = tuple(
            sorted(
                name
                for (name,) in _matches(_ranked(prints, part))
                if any(
                    not out[number] and prints.agrees(part, number, numbers=True)
                    for number in _numbers(prints, (name,))
                )
            )
        )
        if len(matches) == 1 or len({bank.classes[name].group for name in matches}) == 1:
            either = len(matches) > 1
            return Naming((exercise,), Certainty.LOOKS_LIKE, matches, either, within=check)
    return None


def _leans(prints: Fingerprints, trace: Trace, matches: Iterable[Classes]) -> bool:
    """Return whether the answers are nearer to one of the matches than to what is right."""
    numbers = (number for classes in matches for number in _numbers(prints, classes))
    return any(prints.leans(trace, number) for number in numbers)


def _numbers(prints: Fingerprints, mistake: Classes) -> list[int]:
    """Of the fingerprints of a mistake, or of two, which has one for each way to make it."""
    return [number for number, classes in enumerate(prints.mistakes) if classes == mistake]


def _ranked(prints: Fingerprints | None, trace: Trace) -> list[tuple[float, Classes]]:
    """All classes (or pairs of them), the nearest first.

    Where none is near, it is looked for once more without what right code leaves open: there a
    mistake counts that gives numbers of its own.
    """
    if prints is None:
        return []
    order = _by_distance(prints, prints.distances(trace))
    if not prints.free or (order and order[0][0] <= NEAR):
        return order
    firm = _by_distance(prints, prints.distances(trace, prints.firm))
    matches = _matches(firm)
    told = all(
        any(
            prints.agrees(trace, number, numbers=True, only=prints.firm)
            for number in _numbers(prints, classes)
        )
        for classes in matches
    )
    return firm if matches and told else order


def _by_distance(
    prints: Fingerprints, distances: NDArray[np.float64]
) -> list[tuple[float, Classes]]:
    nearest: dict[Classes, float] = {}
    for classes, distance in zip(prints.mistakes, distances.tolist(), strict=True):
        nearest[classes] = min(distance, nearest.get(classes, distance))
    return sorted((distance, classes) for classes, distance in nearest.items())


def _matches(order: Sequence[tuple[float, Classes]]) -> list[Classes]:
    """Those that the answers cannot be told from; all others are clearly farther."""
    if not order or order[0][0] > NEAR:
        return []
    bound = LEAD * max(order[0][0], NOISE)
    return [classes for distance, classes in order if distance < bound]


def _next(bank: Bank, left: Mapping[str, list[Classes]], failed: Iterable[str]) -> Naming:
    """The class that explains most of what is left; several, if they explain it equally well."""
    reach: dict[Classes, tuple[str, ...]] = {}
    for classes in {classes for matches in left.values() for classes in matches}:
        reach[classes] = tuple(e for e, matches in left.items() if classes in matches)

    def worth(classes: Classes) -> tuple[int, int]:
        shows = [e for e, prints in bank.exercises.items() if classes in prints.mistakes]
        return len(reach[classes]), -len(set(shows) - set(failed))  # it should show there, too

    best = max(worth(classes) for classes in reach)
    equal = sorted(classes for classes in reach if worth(classes) == best)
    exercises = reach[equal[0]]
    equal = [classes for classes in equal if reach[classes] == exercises]
    joint = tuple(sorted({name for classes in equal for name in classes}))
    groups = {bank.classes[name].group for name in joint}
    if len(groups) > 1 and len(joint) > FEW:
        return Naming(exercises, Certainty.UNKNOWN)
    certainty = Certainty.NAMED if len(groups) == 1 else Certainty.LOOKS_LIKE
    return Naming(exercises, certainty, joint, either=len(joint) > 1)


def _fit(singles: Fingerprints, pair: Classes, trace: Trace) -> float:
    """Return how far the answers are from two mistakes where a bank of pairs holds nothing."""
    numbers = [_numbers(singles, (name,)) for name in pair]
    return min(singles.apart(trace, *both) for both in product(*numbers))


def _pair(exercise: str, fits: Mapping[Classes, float], asked: Container[str]) -> Naming | None:
    """Two mistakes at once: what all pairs with these answers have in common, and was asked for.

    One of them has to fit exactly, and those that nearly do count: where a mistake shows nothing
    by itself, it may still change a little of what the other one answers.
    """
    matches = [pair for pair, gap in fits.items() if gap <= LIKE]
    if not matches or min(fits.values()) > NEAR:
        return None
    common = set(matches[0]).intersection(*matches[1:])
    if not common:
        return None
    classes = tuple(name for name in matches[0] if name in common and name in asked)
    if not classes:
        return None
    return Naming((exercise,), Certainty.NAMED, classes, partly=len(matches) > 1)


def _like(
    exercise: str,
    prints: Fingerprints | None,
    trace: Trace,
    order: Sequence[tuple[float, Classes]],
) -> Naming:
    """The nearest mistake, if it is near by more than a single number, which chance may do."""
    unknown = Naming((exercise,), Certainty.UNKNOWN)
    if prints is None or not order or order[0][0] > LIKE:
        return unknown
    (nearest, classes), *others = order
    if others and others[0][0] < LEAD * nearest:
        return unknown
    many = any(prints.shows_many(trace, number) for number in _numbers(prints, classes))
    if not many or not _leans(prints, trace, [classes]):
        return unknown
    return Naming((exercise,), Certainty.LOOKS_LIKE, classes)


def _merged(found: Sequence[Naming]) -> list[Naming]:
    """Return what was recognised as the same in several exercises is said once."""
    merged: dict[tuple[Certainty, Classes, bool, bool, str], Naming] = {}
    for naming in found:
        key = (naming.certainty, naming.classes, naming.either, naming.partly, naming.within)
        known = merged.get(key)
        exercises = (*known.exercises, *naming.exercises) if known else naming.exercises
        merged[key] = Naming(exercises, *key)
    return list(merged.values())

"""Promises about fingerprints: they are of the mistakes that are listed, as they answer now."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.authoring import fingerprints
from autograder.authoring.answering import (
    catalogue_of,
    sources_of,
    together,
    traces_of,
    with_needs,
)
from autograder.authoring.place import Place
from autograder.course import asked
from autograder.diagnosis import bank
from autograder.diagnosis.naming import NEAR
from autograder.harness.collected import collect

SAMPLE = 8  # mistakes that are run again: libraries change, too
MAX_BYTES = 1 << 20  # of what students get


def stale(place: Place) -> Iterator[str]:
    """Banks that are absent, too large, of other sources, or of other answers than today's."""
    if not place.misconceptions.exists():
        return
    shown = place.shown(place.fingerprints)
    mend = f"run: {asked.command('build')}"
    if not fingerprints.is_made_of(place.pairs, fingerprints.made_of(place)):
        yield f"{place.shown(place.pairs)}: not made of what is there today; {mend}"
    if not fingerprints.is_made_of(place.fingerprints, fingerprints.made_of_singles(place)):
        yield f"{shown}: not made of the solution, checks and misconceptions of today; {mend}"
        return
    size = place.fingerprints.stat().st_size
    if size > MAX_BYTES:
        yield f"{shown}: has {size} bytes, more than {MAX_BYTES}; give checks fewer cases"
    yield from (f"{shown}: {name} answers otherwise now; {mend}" for name in _changed(place))


def _changed(place: Place) -> Iterator[str]:
    """Of a few mistakes those whose answers are not those of the bank any more."""
    known, catalogue = bank.load(place.fingerprints), catalogue_of(place)
    plan, sources = collect(place.folder), sources_of(place)
    for entry in catalogue.entries[:: max(1, len(catalogue.entries) // SAMPLE)]:
        made = together((entry,), sources)
        assert made is not None  # the hash of the sources would have told
        own = (entry.class_name,)
        shows = {name: p for name, p in known.exercises.items() if own in p.mistakes}
        asked = {check.name for check in plan.lab.checks if check.exercise in shows}
        traces = traces_of(plan, made, only=with_needs(plan.lab, asked)) if asked else {}
        for name, prints in shows.items():
            gaps = zip(prints.mistakes, prints.distances(traces[name]).tolist(), strict=True)
            if min(g for c, g in gaps if c == own) > NEAR:
                yield entry.id
                break

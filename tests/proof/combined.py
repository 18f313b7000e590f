"""Two and three mistakes at once: which are named, and whether a name is ever wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autograder.authoring.answers import together, traces_of
from autograder.authoring.place import LabSources
from autograder.checks.plan import Plan, collect
from autograder.course.records import Finding, HandIn, Outcome
from autograder.diagnosis import bank as banks
from autograder.diagnosis.bank import Bank
from autograder.diagnosis.items import Trace
from autograder.diagnosis.misconceptions import Entry
from tests.proof.naming import hits, named, true_names
from tests.proof.subject import Subject

SAME = 1e-4  # a class whose own output is as near as this is no wrong name


@dataclass(frozen=True)
class Drawn:
    """Hand-ins of ``size`` mistakes each, by name, and how many draws had overlapping places."""

    made: Mapping[str, tuple[Entry, ...]]
    sources: Mapping[str, Mapping[str, str]]
    overlapping: int

    def part(self, turn: int, every: int) -> Drawn:
        """Every second of them, for example, from number ``turn`` on."""
        names = sorted(self.made)[turn::every]
        made, sources = ({n: all_of[n] for n in names} for all_of in (self.made, self.sources))
        return replace(self, made=made, sources=sources)


def drawn(subject: Subject, size: int, count: int, seed: int = 0) -> Drawn:
    """``count`` random sets of ``size`` mistakes of different classes that fit together."""
    rng = random.Random(f"{subject.lab.name} {size} {seed}")
    made: dict[str, tuple[Entry, ...]] = {}
    sources: dict[str, Mapping[str, str]] = {}
    overlapping = 0
    while len(made) < count:
        entries = tuple(rng.sample(subject.mistakes, size))
        if len({entry.class_name for entry in entries}) < size:
            continue
        files = together(entries, subject.sources)
        if files is None:
            overlapping += 1
            continue
        name = f"{len(made):03}"
        made[name], sources[name] = entries, files
    return Drawn(made, sources, overlapping)


@dataclass(frozen=True)
class Judged:
    """What became of :class:`Drawn` hand-ins; names of hand-ins, or of them and a class."""

    count: int
    right: tuple[str, ...]  # they score 100: nothing to name
    hit: tuple[str, ...]  # at least one of their mistakes is named
    whole: tuple[str, ...]  # all of them are
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Judge:
    """Looks at how combined mistakes of a lab were named."""

    subject: Subject

    @cached_property
    def _plan(self) -> Plan:
        return collect(self.subject.lab.folder)

    @cached_property
    def _bank(self) -> Bank:
        return banks.load(LabSources.find(self.subject.lab.name).fingerprints)

    def judge(self, hand_ins: Drawn, graded: Mapping[str, HandIn]) -> Judged:
        """Sort graded hand-ins."""
        right, hit, whole, missed, wrong = [], [], [], [], []
        for name, entries in hand_ins.made.items():
            hand_in, classes = graded[name], {entry.class_name for entry in entries}
            if not self.subject.lost(hand_in):
                right.append(name)
                continue
            seen, listed = hits(hand_in, classes), f"{name} {sorted(classes)}"
            (hit if seen else missed).append(name if seen else listed)
            if seen == classes:
                whole.append(name)
            found = self._wrong(hand_in, classes, hand_ins.sources[name])
            wrong += [f"{listed}: {one}" for one in found]
        groups = (right, hit, whole, missed, wrong)
        return Judged(len(hand_ins.made), *map(tuple, groups))  # type: ignore[arg-type]

    def like_one(self, hand_ins: Drawn, graded: Mapping[str, HandIn]) -> list[str]:
        """Those whose answers are those of one mistake alone."""
        return [
            name
            for name, sources in hand_ins.sources.items()
            if self.subject.lost(graded[name])
            and self._is_one(graded[name], traces_of(self._plan, sources))
        ]

    def _is_one(self, hand_in: HandIn, traces: Mapping[str, Trace]) -> bool:
        """Whether a single mistake gives these answers in every exercise that fails."""
        wrong = {r.check for r in hand_in.results if r.outcome is Outcome.FAILED}
        exercises = [
            e.id for e in self.subject.lab.exercises if any(c.name in wrong for c in e.checks)
        ]
        common: set[str] | None = None
        for exercise in exercises:
            prints = self._bank.exercises.get(exercise)
            if prints is None:
                return False
            gaps = prints.distances(traces[exercise]).tolist()
            near = {c for (c,), gap in zip(prints.mistakes, gaps, strict=True) if gap < SAME}
            common = near if common is None else common & near
        return bool(common)

    def _wrong(
        self, hand_in: HandIn, classes: set[str], sources: Mapping[str, str]
    ) -> Iterator[str]:
        """Classes that were named, are not there, and give other answers by themselves."""
        for finding in named(hand_in):
            ids = {one.id for one in finding.misconceptions}
            foreign = sorted(ids - true_names(classes))
            if not foreign or (finding.either and ids & classes):
                continue
            traces = traces_of(self._plan, sources)
            yield from (one for one in foreign if self._differs(one, finding, traces))

    def _differs(self, name: str, finding: Finding, traces: Mapping[str, Trace]) -> bool:
        for exercise in finding.exercises:
            prints = self._bank.exercises[exercise]
            gaps = prints.distances(traces[exercise]).tolist()
            own = [gap for c, gap in zip(prints.mistakes, gaps, strict=True) if c == (name,)]
            if not own or min(own) > SAME:
                return True
        return False


def share(part: Sequence[str], whole: int) -> str:
    """``"285 (95.0 %)"``."""
    return f"{len(part)} ({100 * len(part) / max(whole, 1):.1f} %)"

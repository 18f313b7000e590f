"""What the class got wrong: mistakes by how many made them, and what to teach again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from autograder.course.records import (
    Certainty,
    ClassRecord,
    Finding,
    HandIn,
    Lab,
    Misconception,
    Outcome,
)
from autograder.course.score import score_of
from autograder.intake.attempts import people
from autograder.report.broken_files import broken_files
from autograder.report.one_pass import look


@dataclass
class Mistake:
    """One line of the class: a mistake, or several of which one cannot tell which it is.

    ``students`` are ids of hand-ins, one for each person or group, and ``checks`` counts in how
    many of them a check revealed it.
    """

    words: tuple[Misconception, ...]
    certainty: Certainty
    students: list[str] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)

    @property
    def key(self) -> str:
        """How it is said: ``named``, ``either``, ``looks_like`` or ``looks_like_either``."""
        several = len(self.words) > 1
        if self.certainty is Certainty.NAMED:
            return "either" if several else "named"
        return "looks_like_either" if several else "looks_like"


@dataclass(frozen=True)
class Survey:
    """The mistakes of a class, the most frequent first, and how much is not explained by them.

    Of ``failing`` hand-ins, which lost points, no mistake was recognised in these: ``files`` have a
    file that could not be used, ``wrong`` gave wrong answers, ``silent`` gave none.
    """

    lab: Lab
    mistakes: tuple[Mistake, ...]
    failing: int
    wrong: int
    silent: int
    files: int = 0


class Mistakes:
    """Counts the mistakes of a class, one hand-in after the other."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._found: dict[tuple[Certainty, tuple[str, ...]], Mistake] = {}
        self._counted: set[tuple[object, ...]] = set()
        self._met: set[frozenset[str]] = set()
        self._failing = self._wrong = self._silent = self._files = 0

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        who = people(hand_in)
        for certainty, words, checks in _recognised(hand_in):
            key = certainty, tuple(one.id for one in words)
            mistake = self._found.setdefault(key, Mistake(words, certainty))
            if (who, *key) not in self._counted:
                self._counted.add((who, *key))
                mistake.students.append(hand_in.student)
                mistake.checks.update(checks)
        if not _lost_points(self._lab, hand_in) or who in self._met:
            return
        self._met.add(who)
        self._failing += 1
        if any(_recognised(hand_in)):
            return
        if broken_files(self._lab, hand_in):
            self._files += 1
        elif any(r.outcome is Outcome.FAILED for r in hand_in.results):
            self._wrong += 1
        else:
            self._silent += 1

    def survey(self) -> Survey:
        """What there was in those that were taken."""
        # Equally many: the surer first, then in the order in which they came.
        order = list(Certainty)
        found = self._found.values()
        mistakes = sorted(found, key=lambda m: (-len(m.students), order.index(m.certainty)))
        counts = self._failing, self._wrong, self._silent, self._files
        return Survey(self._lab, tuple(mistakes), *counts)


def survey(record: ClassRecord) -> Survey:
    """The mistakes of a whole class."""
    mistakes = Mistakes(record.lab)
    look(record.hand_ins, [mistakes])
    return mistakes.survey()


def revealing(lab: Lab, mistake: Mistake) -> tuple[str, ...]:
    """Names of the checks that revealed it, the most frequent first, then as in the lab."""
    order = {check.name: number for number, check in enumerate(lab.checks)}
    return tuple(
        sorted(mistake.checks, key=lambda c: (-mistake.checks[c], order.get(c, len(order)), c))
    )


def _recognised(
    hand_in: HandIn,
) -> Iterator[tuple[Certainty, tuple[Misconception, ...], tuple[str, ...]]]:
    """What a finding says of single mistakes: those that act together are each one's own."""
    for finding in hand_in.findings:
        if finding.certainty is not Certainty.UNKNOWN:
            for words in _apart(finding):
                yield finding.certainty, words, finding.checks


def _apart(finding: Finding) -> list[tuple[Misconception, ...]]:
    if finding.either:
        return [finding.misconceptions] if finding.misconceptions else []
    return [(one,) for one in finding.misconceptions]


def _lost_points(lab: Lab, hand_in: HandIn) -> bool:
    score = score_of(lab, hand_in)
    return score.earned < score.gradable

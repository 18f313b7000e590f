"""The class at a glance: what its page shows, gathered hand-in by hand-in in little memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from autograder.course.records import (
    CheckResult,
    HandIn,
    Lab,
    Message,
    Outcome,
    Override,
    Score,
)
from autograder.course.score import is_late, late_penalty_of, needs_human, score_of

CELLS = 6000  # of the map: more of them are no picture any more, and a large file
BINS = 10


@dataclass(frozen=True)
class Cell:
    """What became of one check of one hand-in, without prints and traceback."""

    result: CheckResult
    decided: Override | None = None


@dataclass(frozen=True)
class Person:
    """One hand-in on the page: a person, or a group.

    ``penalty`` is what lateness takes of the points. ``names`` are those that the course system
    or the roster tells; ``shuffle`` orders people in a way that nobody can work out who does not
    hold their files.
    """

    student: str
    names: tuple[str, ...]
    shuffle: str
    score: Score
    cells: tuple[Cell, ...]
    marks: tuple[Message, ...]
    late: bool
    penalty: int
    human: bool

    @property
    def decided(self) -> bool:
        """Whether a person has set points of it."""
        return any(cell.decided for cell in self.cells)


class Glance:
    """What the page of a class shows; :meth:`take` takes its hand-ins one after the other.

    Counts are of all of them. ``people`` is everybody as long as the map has room (``whole``), and
    of a larger class those that need a human, as many as there is room for: so memory does not
    grow with the class.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.count = 0
        self.human = 0
        self.late = 0
        self.earned: Counter[int] = Counter()
        self.undecided: Counter[int] = Counter()  # those of ``earned`` with points to be decided
        self.outcomes: dict[str, Counter[Outcome]] = {c.name: Counter() for c in lab.checks}
        self.people: list[Person] = []
        self.whole = True
        self._checks = lab.checks
        self._room = max(1, CELLS // max(1, len(self._checks)))

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in, as it is shown: decisions of a person are in it."""
        score = score_of(self.lab, hand_in)
        human = needs_human(self.lab, hand_in)
        results = {result.check: result for result in hand_in.results}
        for check in self._checks:
            result = results.get(check.name)
            self.outcomes[check.name][result.outcome if result else Outcome.NOT_GRADED] += 1
        self.count += 1
        self.human += human
        self.late += bool(is_late(hand_in))
        self.earned[score.earned] += 1
        self.undecided[score.earned] += score.undecided > 0
        if self.whole and self.count > self._room:
            self.whole = False
            self.people = [person for person in self.people if person.human]
        if self.whole or (human and len(self.people) < self._room):
            self.people.append(_person(self.lab, hand_in, results, score, human))

    @property
    def median(self) -> float:
        """Points that half of the hand-ins with a score reach; 0 where none has one."""
        scores = self.earned - self.undecided
        count = scores.total()
        places = ((count - 1) // 2, count // 2)
        found, before = [], 0
        for earned, number in sorted(scores.items()):
            found += [earned for place in places if before <= place < before + number]
            before += number
        return sum(found) / 2 if found else 0

    @property
    def full(self) -> int:
        """Hand-ins with all points."""
        return self.earned[self.lab.points]

    def histogram(self) -> list[tuple[int, int]]:
        """Hand-ins by tenths of the points, full marks in the last: decided, and not yet."""
        bins = [[0, 0] for _ in range(BINS)]
        for earned, number in self.earned.items():
            place = min(BINS - 1, BINS * earned // max(1, self.lab.points))
            bins[place][0] += number - self.undecided[earned]
            bins[place][1] += self.undecided[earned]
        return [(decided, undecided) for decided, undecided in bins]

    def passed(self, check: str) -> tuple[int, int]:
        """How many passed a check, of how many it was graded in."""
        outcomes = self.outcomes[check]
        return outcomes[Outcome.PASSED], outcomes.total() - outcomes[Outcome.NOT_GRADED]

    def numbers(self) -> dict[str, int]:
        """By student the number that stands for their name, counted from 1."""
        order = sorted(self.people, key=lambda person: person.shuffle)
        return {person.student: number for number, person in enumerate(order, start=1)}


def _person(
    lab: Lab,
    hand_in: HandIn,
    results: dict[str, CheckResult],
    score: Score,
    human: bool,
) -> Person:
    decided = {override.check: override for override in hand_in.overrides}
    nothing = Message("report.no_result")
    cells = []
    for check in lab.checks:
        result = results.get(check.name) or CheckResult(check.name, Outcome.NOT_GRADED, nothing)
        slim = CheckResult(check.name, result.outcome, result.message, hidden=result.hidden)
        cells.append(Cell(slim, decided.get(check.name)))
    origin = hand_in.origin
    secret = " ".join(f"{name} {digest}" for name, digest in sorted(hand_in.digests.items()))
    return Person(
        student=hand_in.student,
        names=tuple(one.name or one.id or one.email for one in origin.students),
        shuffle=hashlib.sha256(ascii((hand_in.student, secret)).encode()).hexdigest(),
        score=score,
        cells=tuple(cells),
        marks=hand_in.marks,
        late=bool(is_late(hand_in)),
        penalty=late_penalty_of(lab, hand_in),
        human=human,
    )

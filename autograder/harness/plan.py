"""What a hand-in is asked: checks on their cases, collected once for a whole class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autograder.course.records import Lab
from autograder.reference.cases import Case
from autograder.sandbox.ahead import Coming, Question
from autograder.sandbox.student import Student


@dataclass(frozen=True)
class Trial:
    """One check on one case: the pytest item's function, called without pytest around it."""

    check: str
    case: Case
    run: Callable[[Student, Case], None]
    guard: Callable[[], None] = lambda: None


class Habits:
    """What checks ask, learned from hand-ins that pass them: see :mod:`autograder.sandbox.ahead`.

    That is one request as a rule; a check that makes several on a case is not foreseen.
    """

    def __init__(self) -> None:
        self._questions: dict[tuple[str, str, bool], Question] = {}

    def learn(self, check: str, case: Case, student: Student) -> None:
        """A check has passed on a case, and the student's side tells what it took."""
        place = check, case.name, student.began_fresh
        if place in self._questions or len(student.requests) != 1:
            return
        asked = Question(*student.requests[0])
        equal = next((one for one in self._questions.values() if one.is_same(asked)), None)
        if equal is not None:
            equal.repeated = True
        self._questions[place] = equal or asked

    def coming(self, rest: Iterable[Sequence[Trial]], number: int) -> Coming:
        """What will be asked, up to the first trial of which nobody knows.

        Args:
            rest: the trials of one check after the other.
            number: those of the first check that have been run already.
        """
        for trials in rest:
            for place, trial in enumerate(trials):
                if place < number:
                    continue
                question = self._questions.get((trial.check, trial.case.name, place == 0))
                if question is None:
                    return
                # Other cases of a check run in the namespaces of its first: that has to run, too.
                yield question, len(trials) == 1
            number = 0


@dataclass(frozen=True)
class Plan:
    """All trials of a lab by check, collected once and run for every hand-in.

    ``probes``, by exercise, are asked where no mistake is recognised. ``confirmations``, by the
    checks whose counts they confirm, are asked as :mod:`confirm` decides. ``habits`` grow from
    hand-in to hand-in.
    """

    lab: Lab
    trials: dict[str, tuple[Trial, ...]]
    probes: dict[str, tuple[Trial, ...]] = field(default_factory=dict)
    confirmations: dict[tuple[str, ...], Trial] = field(default_factory=dict)
    habits: Habits = field(default_factory=Habits)

    def split(self, *, hidden: bool) -> dict[str, tuple[Trial, ...]]:
        """The trials by check, on hidden cases or on public ones."""
        return {
            name: tuple(trial for trial in trials if trial.case.hidden == hidden)
            for name, trials in self.trials.items()
        }

    def shuffled(self, seed: str) -> Plan:
        """The same trials, the cases of every check in an order that ``seed`` decides.

        Where a check or a case is taken away, the others keep their order: what was kept of a
        hand-in can be judged by the lab of today.
        """

        def place(trial: Trial) -> bytes:
            return hashlib.sha256(f"{seed} {trial.case.name}".encode()).digest()

        mixed = {name: tuple(sorted(ts, key=place)) for name, ts in self.trials.items()}
        return replace(self, trials=mixed)

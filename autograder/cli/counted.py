"""From records to what counts: completed from the roster, decided by a person, of attempts one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autograder.course.records import HandIn, Lab, LateRules, Message, Override
from autograder.grading import overrides
from autograder.grading.journal import Finished, Journal, Recorded
from autograder.intake import attempts
from autograder.intake.enrolment import Enrolment
from autograder.intake.extensions import Clock


@dataclass(frozen=True)
class Counted:
    """How a record of the journal is shown in reports.

    Args:
        lab: what was graded.
        enrolment: the roster, or an empty one.
        decided: all overrides.
        attempt: ``last`` or ``best``.
        no_weights: for a hand-in, why checks on real weights were not graded.
        rules: about late hand-ins; None where the course has none.
    """

    lab: Lab
    enrolment: Enrolment
    decided: Sequence[Override]
    attempt: str
    no_weights: Callable[[HandIn], Message]
    rules: LateRules | None = None

    def shown(self, hand_in: HandIn) -> HandIn:
        """One hand-in, whether or not it is the attempt that counts."""
        return overrides.applied(self.timed(self._reasoned(hand_in)), self.decided)

    def timed(self, hand_in: HandIn) -> HandIn:
        """With how late it is; the roster may know the ids and emails of extensions."""
        return self._clock.timed(self._completed(hand_in))

    @cached_property
    def _clock(self) -> Clock:
        return Clock(self.rules)

    def of_class(
        self, book: Journal, students: Iterable[str], others: Mapping[str, HandIn]
    ) -> Sequence[HandIn]:
        """What counts, by student: of all that was graded, or of a person's attempts the best.

        Overrides name students as the table of scores does, so they come after that choice.

        Args:
            book: holds the records of ``students``.
            students: ids of hand-ins that were graded.
            others: hand-ins that stay as they are.
        """
        if self.attempt == "last":
            return Recorded(book, students, others, self.shown)
        before = {s: overrides.applied(hand_in, ()) for s, hand_in in others.items()}
        graded = Recorded(book, students, before, lambda one: self.timed(self._reasoned(one)))
        best = attempts.best(self.lab, graded)
        return Finished(best, lambda one: overrides.applied(one, self.decided))

    def _completed(self, hand_in: HandIn) -> HandIn:
        return self.enrolment.completed(hand_in) if self.enrolment.listed else hand_in

    def _reasoned(self, hand_in: HandIn) -> HandIn:
        """With the reason of this run why checks on real weights were not graded."""
        reason = self.no_weights(hand_in)
        results = tuple(
            replace(r, message=reason) if r.message and r.message.key == "check.no_weights" else r
            for r in hand_in.results
        )
        return replace(hand_in, results=results)

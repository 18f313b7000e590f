"""The list of what a person has to look at: marked in records, said at the end of a grading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autograder.course.late import LateRules
from autograder.course.records import HandIn, Lab, Message, Outcome, Override, Student
from autograder.course.score import looked_at, score_of
from autograder.grading import output_folder, overrides
from autograder.grading.journal import FinishedHandIns, Journal, JournalHandIns
from autograder.intake import attempts
from autograder.intake.extensions import Clock, Strangers
from autograder.intake.people import DOUBTS, Enrolment
from autograder.report.terminal import remark, say

# Notes of intake that a person has to decide about.
_OPEN_NOTES = ("intake.same_student", "intake.stub_beside", "intake.later_beside", *DOUBTS)
STALE = "grade.choice_stale"
_TO_CHOOSE = (*_OPEN_NOTES, "intake.attempt_undecided")
# Remarks on the source that may mean that somebody's work was not graded.
_SERIOUS = tuple(
    f"intake.{key}"
    for key in ("stray_sources", "stray_people", "same_number", "metadata_unread", "one_student",
                "sections")
)  # fmt: skip


def marked(hand_in: HandIn) -> HandIn:
    """The record with marks for what intake left open: nothing could be read, or whose it is."""
    marks = [note for note in hand_in.notes if note.key in _OPEN_NOTES]
    if _unread(hand_in):
        marks.append(Message("check.unread"))
    return replace(undecided_if_unread(hand_in), marks=(*hand_in.marks, *marks))


def undecided_if_unread(hand_in: HandIn) -> HandIn:
    """The record; where nothing could be read nothing was graded, and a person decides."""
    if not _unread(hand_in):
        return hand_in
    results = tuple(replace(result, outcome=Outcome.NOT_GRADED) for result in hand_in.results)
    return replace(hand_in, results=results)


class ReviewList:
    """The hand-ins that need somebody, by the reason.

    Args:
        lab: what was graded.
        decided: all overrides; those of nobody are named.
        rules: about late hand-ins; None where the course has none.
        known: who may have an extension though none of these hand-ins is theirs.
    """

    def __init__(
        self,
        lab: Lab,
        decided: Sequence[Override] = (),
        rules: LateRules | None = None,
        known: Iterable[Student] = (),
    ) -> None:
        self._lab = lab
        self._lost = {override.student for override in decided}
        self._undecided: list[str] = []
        self._unread: list[str] = []
        self._to_choose: list[str] = []
        self._stale: list[str] = []
        self._late = _LateOnes(rules, known)

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        self._lost.discard(hand_in.student)
        if score_of(self._lab, hand_in).undecided:
            (self._unread if _unread(hand_in) else self._undecided).append(hand_in.student)
        marks = {mark.key for mark in hand_in.marks if not looked_at(hand_in)}
        if marks.intersection(_TO_CHOOSE):
            self._to_choose.append(hand_in.student)
        if STALE in marks:
            self._stale.append(hand_in.student)
        self._late.take(hand_in)

    def said(self, language: str, remarks: Sequence[Message] = ()) -> int:
        """Name them.

        Args:
            language: ``en`` or ``zh``.
            remarks: of intake; what may have cost somebody their grading is said again.

        Returns:
            The exit status, 1 if there is anything.
        """
        if self._lost:
            say(language, "strangers", students=output_folder.named(sorted(self._lost)))
        serious = [message for message in remarks if message.key in _SERIOUS]
        for message in serious:
            remark(language, message)
        if self._undecided:
            say(language, "undecided", students=output_folder.named(self._undecided))
        if self._unread:
            say(language, "unread", students=output_folder.named(self._unread))
        if self._to_choose:
            say(language, "to_choose", students=output_folder.named(self._to_choose))
        if self._stale:
            say(language, "rescore_choice", students=output_folder.named(self._stale))
        late = self._late.said(language)
        somebody = self._undecided or self._unread or self._to_choose or self._lost or self._stale
        return 1 if somebody or serious or late else 0


class _LateOnes:
    """Hand-ins whose lateness a person has to decide, and extensions of nobody in the class."""

    def __init__(self, rules: LateRules | None, known: Iterable[Student]) -> None:
        self._strangers = Strangers(rules.extensions if rules else (), known)
        self._flagged: list[str] = []
        self._no_offset: list[str] = []
        self._no_time = 0

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        self._strangers.take(hand_in)
        late, told = hand_in.lateness, hand_in.origin.late
        if late is None or late.days is not None or told is False or looked_at(hand_in):
            return
        if told:
            self._flagged.append(hand_in.student)
        elif late.why == "no_offset":
            self._no_offset.append(hand_in.student)
        else:
            self._no_time += 1

    def said(self, language: str) -> bool:
        """Name them; whether somebody has to look."""
        lost = self._strangers.left()
        if lost:
            say(language, "extension_strangers", students=output_folder.named(lost))
        if self._flagged:
            say(language, "late_without_time", students=output_folder.named(self._flagged))
        if self._no_offset:
            say(language, "no_offset", students=output_folder.named(self._no_offset))
        if self._no_time:
            say(language, "no_time", count=self._no_time)
        return bool(lost or self._flagged or self._no_offset)


class NotEnrolled:
    """Students who handed in and are not on the roster; nobody where there is none."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment
        self.students: list[str] = []

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        if self._enrolment.listed and not self._enrolment.knows(hand_in):
            self.students.append(hand_in.student)


def _unread(hand_in: HandIn) -> bool:
    """Return whether no file of a hand-in could be taken, so that nothing of it was graded."""
    return bool(hand_in.results) and all(
        r.message is not None and r.message.key.startswith("intake.") for r in hand_in.results
    )


# From records to what counts: completed from the roster, decided by a person, of attempts one.


@dataclass(frozen=True)
class ScoreRules:
    """Rules that turn a record of the journal into what reports show.

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
        return self.decided_now(self._reasoned(hand_in))

    def decided_now(self, hand_in: HandIn) -> HandIn:
        """With the lateness and the overrides of today."""
        return overrides.applied(self.timed(hand_in), self.decided)

    def timed(self, hand_in: HandIn) -> HandIn:
        """With how late it is; the roster may know the ids and emails of extensions."""
        return self._clock.timed(self._completed(hand_in))

    @cached_property
    def _clock(self) -> Clock:
        return Clock(self.rules)

    def of_class(
        self, book: Journal, students: Iterable[str], others: Mapping[str, HandIn]
    ) -> Sequence[HandIn]:
        """Say what counts, by student: of all that was graded, or of a person's attempts the best.

        Overrides name students as the table of scores does, so they come after that choice.

        Args:
            book: holds the records of ``students``.
            students: ids of hand-ins that were graded.
            others: hand-ins that stay as they are.
        """
        if self.attempt == "last":
            return JournalHandIns(book, students, others, self.shown)
        before = {s: overrides.applied(hand_in, ()) for s, hand_in in others.items()}
        graded = JournalHandIns(book, students, before, lambda one: self.timed(self._reasoned(one)))
        best = attempts.best(self.lab, graded)
        return FinishedHandIns(best, lambda one: overrides.applied(one, self.decided))

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

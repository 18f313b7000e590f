"""What a person has to look at: marked in the records, and said at the end of a grading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from autograder.cli.say import remark, say
from autograder.course.records import HandIn, Lab, LateRules, Message, Outcome, Override, Student
from autograder.course.score import looked_at, score_of
from autograder.grading import outfolder
from autograder.intake.enrolment import Enrolment
from autograder.intake.extensions import Strangers

# Notes of intake that a person has to decide about.
_OPEN_NOTES = ("intake.same_student",)
# Remarks on the source that may mean that somebody's work was not graded.
_SERIOUS = ("intake.stray_sources", "intake.metadata_unread")


def marked(hand_in: HandIn) -> HandIn:
    """The record with marks for what intake left open: nothing could be read, or whose it is.

    Where nothing could be read nothing was graded: a person decides, and until then no score is.
    """
    marks = [note for note in hand_in.notes if note.key in _OPEN_NOTES]
    results = hand_in.results
    if _unread(hand_in):
        marks.append(Message("check.unread"))
        results = tuple(replace(result, outcome=Outcome.NOT_GRADED) for result in results)
    return replace(hand_in, results=results, marks=(*hand_in.marks, *marks))


class ForAHuman:
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
        self._late = _LateOnes(rules, known)

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        self._lost.discard(hand_in.student)
        if score_of(self._lab, hand_in).undecided:
            (self._unread if _unread(hand_in) else self._undecided).append(hand_in.student)
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
            say(language, "strangers", students=outfolder.named(sorted(self._lost)))
        serious = [message for message in remarks if message.key in _SERIOUS]
        for message in serious:
            remark(language, message)
        if self._undecided:
            say(language, "undecided", students=outfolder.named(self._undecided))
        if self._unread:
            say(language, "unread", students=outfolder.named(self._unread))
        late = self._late.said(language)
        return 1 if self._undecided or self._unread or serious or self._lost or late else 0


class _LateOnes:
    """Whose lateness a person has to decide, and which extensions are nobody's."""

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
            say(language, "extension_strangers", students=outfolder.named(lost))
        if self._flagged:
            say(language, "late_without_time", students=outfolder.named(self._flagged))
        if self._no_offset:
            say(language, "no_offset", students=outfolder.named(self._no_offset))
        if self._no_time:
            say(language, "no_time", count=self._no_time)
        return bool(lost or self._flagged or self._no_offset)


class NotEnrolled:
    """Who handed in and is not on the roster; nobody where there is none."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment
        self.students: list[str] = []

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        if self._enrolment.listed and not self._enrolment.knows(hand_in):
            self.students.append(hand_in.student)


def _unread(hand_in: HandIn) -> bool:
    """Whether no file of a hand-in could be taken, so that nothing of it was graded."""
    return bool(hand_in.results) and all(
        r.message is not None and r.message.key.startswith("intake.") for r in hand_in.results
    )

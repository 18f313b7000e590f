"""What a person has to look at: marked in the records, and said at the end of a grading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autograder.cli.say import remark, say
from autograder.course.records import ClassRecord, HandIn, Message, Override
from autograder.course.score import score_of
from autograder.grading import outfolder, overrides

# Notes of intake that a person has to decide about.
_OPEN_NOTES = ("intake.same_student",)
# Remarks on the source that may mean that somebody's work was not graded.
_SERIOUS = ("intake.stray_sources", "intake.metadata_unread")


def marked(hand_in: HandIn) -> HandIn:
    """The record with marks for what intake left open: nothing could be read, or whose it is."""
    marks = [note for note in hand_in.notes if note.key in _OPEN_NOTES]
    if _unread(hand_in):
        marks.append(Message("check.unread"))
    return replace(hand_in, marks=(*hand_in.marks, *marks))


def for_a_human(
    record: ClassRecord,
    language: str,
    decided: Sequence[Override] = (),
    remarks: Sequence[Message] = (),
) -> int:
    """Name the hand-ins that need somebody.

    Args:
        record: the class.
        language: ``en`` or ``zh``.
        decided: all overrides; those of nobody are named.
        remarks: of intake; what may have cost somebody their grading is said again.

    Returns:
        The exit status, 1 if there is anything.
    """
    lost = overrides.strangers(decided, (h.student for h in record.hand_ins)) if decided else []
    if lost:
        say(language, "strangers", students=outfolder.named(lost))
    serious = [message for message in remarks if message.key in _SERIOUS]
    for message in serious:
        remark(language, message)
    undecided = [h.student for h in record.hand_ins if score_of(record.lab, h).undecided]
    if undecided:
        say(language, "undecided", students=outfolder.named(undecided))
    unread = [h.student for h in record.hand_ins if _unread(h)]
    if unread:
        say(language, "unread", students=outfolder.named(unread))
    return 1 if undecided or unread or serious or lost else 0


def _unread(hand_in: HandIn) -> bool:
    """Whether no file of a hand-in could be taken, so that nothing of it was graded."""
    return bool(hand_in.results) and all(
        r.message is not None and r.message.key.startswith("intake.") for r in hand_in.results
    )

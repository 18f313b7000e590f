"""What a student reads about recognised mistakes, as much of it as the lab's feedback allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autograder.course.messages import render
from autograder.course.records import (
    FEEDBACK,
    Certainty,
    Finding,
    HandIn,
    Lab,
    Message,
    Misconception,
    Text,
)
from autograder.report import escape
from autograder.report.view import Quote, sentence

Phrase = tuple[tuple[str, bool], ...]  # pieces of a sentence; True: it is a mistake's name
_MARK = "\0"  # around names; what is shown holds no controls
_LIST = {"en": "; ", "zh": "；"}


@dataclass(frozen=True)
class MistakeView:
    """One mistake; ``name`` and ``sees`` are empty where only hints may be given."""

    name: str
    sees: str
    hint: str
    section: str


@dataclass(frozen=True)
class FindingView:
    """One finding: the exercises, a sentence with the names, the mistakes, what else is known."""

    exercises: str
    said: Phrase
    mistakes: tuple[MistakeView, ...]
    known: tuple[str, ...]


def wording(name: str, language: str, **values: object) -> str:
    """A fixed phrase about mistakes, from ``diagnosis.toml``."""
    return render(Message(f"diagnosis.{name}", values), language)


def recognised(lab: Lab, hand_in: HandIn, language: str, quote: Quote) -> tuple[FindingView, ...]:
    """The findings of a hand-in: none of them where feedback ends at the symptom."""
    if lab.feedback == FEEDBACK[0]:
        return ()
    views = (_view(lab, finding, language, quote) for finding in hand_in.findings)
    return tuple(view for view in views if view.mistakes or view.known)


def said_of(finding: Finding, language: str) -> Phrase:
    """The sentence that says what was recognised, and no more than that."""
    if finding.certainty is Certainty.UNKNOWN or not finding.misconceptions:
        return ((wording("unknown", language), False),)
    names = [f"{_MARK}{_words(one.name, language)}{_MARK}" for one in finding.misconceptions]
    either = finding.either and len(names) > 1
    joined = (_LIST[language] if either else wording("and", language)).join(names)
    if finding.certainty is Certainty.LOOKS_LIKE:
        text = wording("looks_like_either" if either else "looks_like", language, names=joined)
    else:
        text = wording("either" if either else "named", language, names=joined)
    pieces = enumerate(text.split(_MARK))
    return tuple((piece, number % 2 == 1) for number, piece in pieces if piece)


def section_of(one: Misconception, language: str) -> str:
    """The section's title: a heading of the handout in that language."""
    return _words(one.section, language)


def _view(lab: Lab, finding: Finding, language: str, quote: Quote) -> FindingView:
    titles = {exercise.id: exercise.title.in_(language) for exercise in lab.exercises}
    mistakes = tuple(_mistake(one, lab.feedback, language) for one in finding.misconceptions)
    return FindingView(
        exercises=" · ".join(titles.get(name, name) for name in finding.exercises),
        said=said_of(finding, language) if _told(finding, lab.feedback) else (),
        mistakes=mistakes,
        known=tuple(sentence(message, language, quote) for message in finding.known),
    )


def _told(finding: Finding, feedback: str) -> bool:
    return feedback == FEEDBACK[-1] or not finding.misconceptions


def _mistake(one: Misconception, feedback: str, language: str) -> MistakeView:
    whole = feedback == FEEDBACK[-1]
    return MistakeView(
        name=_words(one.name, language) if whole else "",
        sees=_words(one.sees, language) if whole else "",
        hint=wording("hint", language, hint=_words(one.hint, language)),
        section=wording("read", language, section=section_of(one, language)),
    )


def _words(text: Text, language: str) -> str:
    return escape.line(text.in_(language))


def plain(phrase: Sequence[tuple[str, bool]]) -> str:
    """The sentence for a terminal."""
    return "".join(piece for piece, _ in phrase)

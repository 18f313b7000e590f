"""Hints for one exercise, step by step: what to look at, what it is, what to read. No solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

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
    anchor,
)
from autograder.report import escape
from autograder.report.next_step import command_of, number_of
from autograder.report.remedies import (
    OF_THE_FILE,
    are_wrong_numbers,
    is_no_mathematics,
    is_specific,
    key_of,
    remedies,
)
from autograder.report.scoreboard import symptom
from autograder.report.terminal import columns
from autograder.report.view import Quote, ScoreRow, sentence

# What a student reads about recognised mistakes, as much of it as the lab's feedback allows.

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
    names = [
        f"{_MARK}{_words_recognised(one.name, language)}{_MARK}" for one in finding.misconceptions
    ]
    either = finding.either and len(names) > 1
    joined = (_LIST[language] if either else wording("and", language)).join(names)
    if finding.certainty is Certainty.SHOWN:
        text = wording("shown", language, names=wording("and", language).join(names))
    elif finding.certainty is Certainty.LOOKS_LIKE:
        text = wording("looks_like_either" if either else "looks_like", language, names=joined)
    else:
        key = "either" if either else "together" if len(names) > 1 else "named"
        text = wording(key, language, names=joined)
    pieces = enumerate(text.split(_MARK))
    return tuple((piece, number % 2 == 1) for number, piece in pieces if piece)


def section_of(one: Misconception, language: str) -> str:
    """The section's title: a heading of the handout in that language."""
    return _words_recognised(one.section, language)


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
    whole, title = feedback == FEEDBACK[-1], section_of(one, language)
    return MistakeView(
        name=_words_recognised(one.name, language) if whole else "",
        sees=_words_recognised(one.sees, language) if whole else "",
        hint=wording("hint", language, hint=_words_recognised(one.hint, language)),
        section=wording("read", language, section=title) if title else "",
    )


def _words_recognised(text: Text, language: str) -> str:
    return escape.line(text.in_(language))


def plain(phrase: Sequence[tuple[str, bool]]) -> str:
    """The sentence for a terminal."""
    return "".join(piece for piece, _ in phrase)


HANDOUT, CHINESE_HANDOUT = "README.md", "README.zh-CN.md"


def subject(row: ScoreRow, finding: Finding | None) -> str:
    """Return what the hints are about: when it changes, they begin anew."""
    if finding is not None and finding.misconceptions:
        return f"{finding.certainty.value} {' '.join(one.id for one in finding.misconceptions)}"
    check, result = row.missed[0]
    return f"{check.name} {result.outcome.value} {result.message.key if result.message else ''}"


def steps(lab: Lab, row: ScoreRow, finding: Finding | None, language: str) -> list[list[str]]:
    """The hints in order, each a few lines; at least one."""
    recipe, *more = _recipes(lab, row, language)
    recipe += _already_right(row, language)
    if finding is None:
        return [recipe, *more]
    known = [
        f"  {text}"
        for one in finding.known
        for text in escape.folded(sentence(one, language, escape.line), columns() - 2)
    ]
    if not finding.misconceptions:
        unknown = [wording("unknown", language), *known] if known else []
        return [[*unknown, *recipe], *more]
    texts = [_words(one.hint, language) for one in finding.misconceptions]
    found = [known + [wording("hint", language, hint=text) for text in texts]]
    if lab.feedback == FEEDBACK[-1]:
        sees = [_words(one.sees, language) for one in finding.misconceptions]
        found.append([plain(said_of(finding, language)), *dict.fromkeys(sees)])
    read = {one.anchor: section_of(one, language) for one in finding.misconceptions}
    files = [
        wording("read_file", language, section=title, file=_page(lab, place, title, language))
        for place, title in read.items()
        if title
    ]
    return [*found, files] if files else found


_FORM = ("shape", "dtype and contract")  # where these are right, little is known of numbers
_PROPERTIES = 4


def _already_right(row: ScoreRow, language: str) -> list[str]:
    """The properties that its wrong numbers have, those of the most points: what not to search."""
    if not are_wrong_numbers(row.missed[0][1]):
        return []
    missed = {check.name for check, _ in row.missed}
    asked = (one for one in row.checks if one.family not in _FORM and not one.optional)
    right = [one for one in asked if one.name not in missed]
    most = sorted(right, key=lambda check: -check.points)[:_PROPERTIES]
    titles = (_words(one.title, language) for one in right if one in most)
    lines = [f"  {text}" for title in titles for text in escape.folded(title, columns() - 2)]
    return [wording("holds", language), *lines] if lines else []


def earlier(lab: Lab, rows: Sequence[ScoreRow], row: ScoreRow, language: str) -> str:
    """Return which exercise of the same file does not pass either and comes first; empty for none.

    A student who asks for one exercise by name may look for a mistake that stands in another.
    Where the file cannot even be imported, all of its exercises fail in the same place.
    """
    if key_of(row.missed[0][1]) in OF_THE_FILE:
        return ""
    before = takewhile(lambda one: one.exercise.id != row.exercise.id, rows)
    found = (one for one in before if one.exercise.file == row.exercise.file)
    first = next((one for one in found if one.kind == "failed"), None)
    if first is None:
        return ""
    title = escape.line(first.exercise.title.in_(language))
    command = command_of(number_of(lab), "hint", first.name)
    return wording("earlier", language, title=title, command=command)


def _page(lab: Lab, place: str, title: str, language: str) -> str:
    """The handout in the reader's language, and the place of the section in it."""
    name = HANDOUT
    if language == "zh" and (lab.folder / CHINESE_HANDOUT).is_file():
        name, place = CHINESE_HANDOUT, anchor(title) if place else ""
    path = f"{lab.folder.parent.name}/{lab.folder.name}/{name}"
    return f"{path}#{place}" if place else path


def shown(
    lab: Lab, row: ScoreRow, told: list[list[str]], number: int, language: str, before: str = ""
) -> str:
    """Symptom and place, the first ``number`` hints of ``told``, and what to do then.

    ``before`` says what to look at first, see :func:`earlier`.
    """
    check, result = row.missed[0]
    exercise = row.exercise
    title = escape.line(exercise.title.in_(language))
    lines = [wording("place", language, title=title, file=exercise.file)]
    lines += symptom(check, result, language)
    words, _, to_run = before.partition("\n")  # which is copied, and so stays on one line
    lines += ["", *escape.folded(words, columns()), to_run] if before else []
    for hints in told[:number]:
        lines += ["", *hints] if hints else []
    more = number < len(told)
    command = command_of(number_of(lab), "hint" if more else "test", row.name)
    if more:
        end = wording("step", language, number=number, count=len(told), command=command)
    else:
        end = wording("last_step", language, command=command)
    return "\n".join([*lines, "", end])


def _recipes(lab: Lab, row: ScoreRow, language: str) -> list[list[str]]:
    """Recipes for a failure of this kind, and for the exercise as a whole.

    The latter first where numbers are wrong, and not where it is no mathematics: a syntax error.
    """
    _, result = row.missed[0]
    key = "hint" if row.kind == "not_started" else "recipe"
    whole = [wording(key, language, hint=_words(row.exercise.hint, language))]
    debug = command_of(number_of(lab), "debug", row.name)
    first, *more = (
        [wording("hint", language, hint=one)] for one in remedies(result, language, debug)
    )
    if is_no_mathematics(result):
        return [first, *more]
    if is_specific(result):
        return [first, whole, *more]
    return [whole, first] if are_wrong_numbers(result) else [whole]


def _words(text: Text, language: str) -> str:
    return escape.line(text.in_(language)).replace("`", "")

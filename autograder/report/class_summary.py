"""The class at a glance: what its page shows, gathered hand-in by hand-in in little memory."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from autograder.course.records import (
    LANGUAGES,
    CheckResult,
    HandIn,
    Lab,
    Message,
    Outcome,
    Override,
    Score,
    Text,
)
from autograder.course.score import final_of, is_late, late_penalty_of, neat, needs_human, score_of
from autograder.report import escape
from autograder.report.broken_files import BrokenFile, broken_files, of_a_file
from autograder.report.view import BAD, Quote, sentence

if TYPE_CHECKING:
    from markupsafe import Markup


CELLS = 6000  # of the map: more of them are no picture any more, and a large file
BINS = 10
BROKEN = 24  # hand-ins with a file that could not be used, by name


@dataclass(frozen=True)
class Cell:
    """The result of one check of one hand-in, without prints and traceback."""

    result: CheckResult
    decided: Override | None = None


@dataclass(frozen=True)
class Person:
    """One hand-in on the page: a person, or a group.

    ``penalty`` is what lateness takes of the points; ``decided``: a person has
    set some. ``names`` are those that the course system
    or the roster tells; ``shuffle`` orders people in a way that nobody can work out who does not
    hold their files. ``broken`` are files that could not be used.
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
    decided: bool
    broken: tuple[BrokenFile, ...] = ()

    @property
    def final(self) -> float:
        """The points that count."""
        return neat(self.score.earned - self.penalty)


class ClassSummary:
    """The content of a class's page; :meth:`take` takes its hand-ins one after the other.

    Counts are of all of them. ``people`` is everybody as long as the map has room (``whole``), and
    of a larger class those that need a human, as many as there is room for: so memory does not
    grow with the class. ``broken`` are those of the others with a file that could not be used.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.count = 0
        self.human = 0
        self.late = 0
        self.final: Counter[float] = Counter()  # hand-ins by the points that count
        self.undecided: Counter[float] = Counter()  # those of ``final`` with points to be decided
        self.raw: Counter[float] = Counter()  # the decided ones, before lateness takes anything off
        self.outcomes: dict[str, Counter[Outcome]] = {c.name: Counter() for c in lab.checks}
        self.unusable: Counter[str] = Counter()  # by check: for the sake of its file alone
        self.people: list[Person] = []
        self.broken: list[Person] = []
        self.broken_count = 0
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
        final = final_of(self.lab, hand_in)
        self.final[final] += 1
        self.undecided[final] += score.undecided > 0
        self.raw[score.earned] += not score.undecided
        broken = broken_files(self.lab, hand_in)
        for one in broken:
            ailing = (name for name in one.checks if results[name].outcome in BAD)
            self.unusable.update(name for name in ailing if of_a_file(results[name]))
        if self.whole and self.count > self._room:
            self.whole = False
            self.people = [person for person in self.people if person.human]
        shown = self.whole or (human and len(self.people) < self._room)
        listed = bool(broken) and not human
        self.broken_count += listed
        listed = listed and len(self.broken) < BROKEN
        if shown or listed:
            person = _person(self.lab, hand_in, results, score, human, broken)
            self.people += [person] * shown
            self.broken += [person] * listed

    @property
    def median(self) -> float:
        """Points that count and that half of the hand-ins with a score reach; 0 for none."""
        return _median(self.final - self.undecided)

    @property
    def raw_median(self) -> float:
        """The same before lateness takes anything off."""
        return _median(self.raw)

    @property
    def deducted(self) -> bool:
        """Return whether lateness took points off anybody."""
        return self.final - self.undecided != +self.raw

    @property
    def full(self) -> int:
        """Hand-ins with all points."""
        return sum(n for points, n in self.final.items() if points >= self.lab.points)

    def histogram(self) -> list[tuple[int, int]]:
        """Hand-ins by tenths of the points that count: decided, and not yet."""
        decided = _bins(self.final - self.undecided, self.lab)
        return list(zip(decided, _bins(self.undecided, self.lab), strict=True))

    def raw_histogram(self) -> list[int]:
        """Those that are decided, before lateness takes anything off."""
        return _bins(self.raw, self.lab)

    def passed(self, check: str) -> tuple[int, int]:
        """Return how many passed a check, of how many it was graded in."""
        outcomes = self.outcomes[check]
        return outcomes[Outcome.PASSED], outcomes.total() - outcomes[Outcome.NOT_GRADED]

    def numbers(self) -> dict[str, int]:
        """By student the number that stands for their name, counted from 1."""
        everybody = {person.student: person for person in (*self.people, *self.broken)}
        order = sorted(everybody.values(), key=lambda person: person.shuffle)
        return {person.student: number for number, person in enumerate(order, start=1)}


def _median(scores: Counter[float]) -> float:
    count = scores.total()
    places = ((count - 1) // 2, count // 2)
    found: list[float] = []
    before = 0
    for points, number in sorted(scores.items()):
        found += [points for place in places if before <= place < before + number]
        before += number
    return sum(found) / 2 if found else 0


def _bins(scores: Counter[float], lab: Lab) -> list[int]:
    """By tenths of the points, full marks in the last."""
    bins = [0] * BINS
    for points, number in scores.items():
        bins[max(0, min(BINS - 1, int(BINS * points // max(1, lab.points))))] += number
    return bins


def _person(
    lab: Lab,
    hand_in: HandIn,
    results: dict[str, CheckResult],
    score: Score,
    human: bool,
    broken: tuple[BrokenFile, ...],
) -> Person:
    decided = {override.check: override for override in hand_in.overrides}
    nothing = Message("report.no_result")
    cells = []
    for check in lab.checks:
        result = results.get(check.name) or CheckResult(check.name, Outcome.NOT_GRADED, nothing)
        cells.append(Cell(_slim(replace(result, check=check.name)), decided.get(check.name)))
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
        decided=any(one.points is not None or one.bonus for one in hand_in.overrides),
        broken=tuple(replace(one, result=_slim(one.result)) for one in broken),
    )


def _slim(result: CheckResult) -> CheckResult:
    """Without prints and traceback."""
    return CheckResult(result.check, result.outcome, result.message, hidden=result.hidden)


# One look through a class, however many files and summaries are made of it.
#
# Reading a record costs more than summing it up, and thousands of them do not fit into memory. So
# whoever tells something of a whole class is a :class:`Summary`: it takes the hand-ins one by one,
# keeps what it needs of each (a few words, never the record), and tells at the end.
# ``write.class_files`` makes ``class.json`` and ``scores.csv`` in such a look, and lets any number
# of others share it.


class Summary(Protocol):
    """Something that is told of all hand-ins; what it tells, and how, is its own."""

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in, in the order of ``class.json``: sorted by student id."""


def look(hand_ins: Iterable[HandIn], summaries: Sequence[Summary]) -> None:
    """Show every hand-in to every summary; each is read once and then let go."""
    for hand_in in hand_ins:
        for summary in summaries:
            summary.take(hand_in)


# Sentences in which what a student wrote can be covered: for a page shown to a whole room.

LENGTH = 220  # signs of one sentence
_OPEN, _CLOSE = "\x01", "\x02"  # around a student's text: `escape.line` leaves none in it
_PIECE = re.compile(r"[\d.][\d.e+-]*\Z")  # a number's beginning is another number
_NUMBERS = re.compile(r"[\d\s()\[\],.:+\-einfa]*")  # shapes, places, sizes, nan and inf


def private(message: Message, language: str, known: Collection[str]) -> str:
    """The sentence with everything that may be a student's words between marks.

    Args:
        message: to be rendered.
        language: ``en`` or ``zh``.
        known: texts of the lab (file names, say) that tell nothing about anybody.
    """
    return _cut(sentence(message, language, _cover(message, known)))


def _cover(message: Message, known: Collection[str]) -> Quote:
    ours = {str(text) for value in message.values.values() for text in _words(value)}

    def quote(text: str) -> str:
        shown = escape.line(text)
        harmless = text in ours or text in known or _NUMBERS.fullmatch(shown)
        return shown if harmless else covered(shown)

    return quote


def _words(value: object) -> Collection[object]:
    """Texts of ours come in both languages."""
    if isinstance(value, Text):
        return (value.en, value.zh)
    if isinstance(value, Mapping) and set(value) <= set(LANGUAGES):
        return value.values()
    return ()


def _cut(text: str) -> str:
    if len(text) <= LENGTH:
        return text
    text = _PIECE.sub("", text[: LENGTH - 1]).rstrip(_OPEN)
    return text + (_CLOSE if text.rfind(_OPEN) > text.rfind(_CLOSE) else "") + "…"


def covered(text: str) -> str:
    """``text``, on one line, between the marks."""
    return f"{_OPEN}{escape.line(text)}{_CLOSE}"


def marked_up(text: str) -> Markup:
    """Escaped; what stands between marks becomes ``<i>``, and ``…`` in a ``<b>`` goes before it.

    The style sheet shows one of both.
    """
    from markupsafe import Markup
    from markupsafe import escape as escaped

    whole = str(escaped(text))
    return Markup(whole.replace(_OPEN, "<b>…</b><i>").replace(_CLOSE, "</i>"))

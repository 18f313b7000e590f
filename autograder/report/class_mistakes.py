"""Mistakes of a class by how many made them, and what to teach again."""

from __future__ import annotations

import csv
import io
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
from autograder.report import escape
from autograder.report.broken_files import broken_files
from autograder.report.class_summary import look
from autograder.report.hints import section_of, wording


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
        """Return how it is said: ``named``, ``either``, ``looks_like`` or ``looks_like_either``."""
        several = len(self.words) > 1
        if self.certainty is Certainty.SHOWN:  # several act together
            return "named"
        if self.certainty is Certainty.NAMED:
            return "either" if several else "named"
        return "looks_like_either" if several else "looks_like"


@dataclass(frozen=True)
class MistakeCounts:
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

    def survey(self) -> MistakeCounts:
        """Return what there was in those that were taken."""
        # Equally many: the surer first, then in the order in which they came.
        order = list(Certainty)
        found = self._found.values()
        mistakes = sorted(found, key=lambda m: (-len(m.students), order.index(m.certainty)))
        counts = self._failing, self._wrong, self._silent, self._files
        return MistakeCounts(self._lab, tuple(mistakes), *counts)


def survey(record: ClassRecord) -> MistakeCounts:
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
    """Return what a finding says of single mistakes: those that act together are each one's own."""
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


# The class's mistakes as a short list for the terminal, as Markdown, and as CSV.

COLUMNS = ("misconception", "group", "students", "count", "check", "section")
TOP = 10  # lines on the terminal
_WIDTH = 100
_COUNT, _NAME, _SECTION = 4, 54, 20
_OR = {"en": "; ", "zh": "；"}


def lines(survey: MistakeCounts, language: str) -> list[str]:
    """At most ten mistakes, the most frequent first, in at most 100 columns.

    Each with how many made it, its name, what to teach again, and who made it.
    """
    if not survey.failing:
        return []
    told = ["", wording("class_title", language)]
    for mistake in survey.mistakes[:TOP]:
        room = _WIDTH - _COUNT - _NAME - _SECTION - 3
        cells = [
            f"{len(mistake.students):>{_COUNT}}",
            escape.fitted(name_of(mistake, language), _NAME),
            escape.fitted(sections_of(mistake, language), _SECTION),
            escape.fitted(", ".join(map(escape.line, mistake.students)), room),
        ]
        told.append(" ".join(cells).rstrip())
    more = len(survey.mistakes) - TOP
    if more > 0:
        told.append(wording("all_in", language, count=more))
    if not survey.mistakes:
        told.append(wording("none", language))
    return [*told, *others(survey, language)]


def markdown(survey: MistakeCounts, language: str) -> str:
    """All of them in a table, student names in code spans where they need it."""
    told = [f"# {wording('class_title', language)} · {_cell(survey.lab.title.in_(language))}", ""]
    if survey.mistakes:
        heads = ("count", "misconception", "check", "section", "students")
        told += [wording("class_intro", language), ""]
        told += ["| " + " | ".join(wording(head, language) for head in heads) + " |"]
        told += ["| ---: |" + " --- |" * (len(heads) - 1)]
        for mistake in survey.mistakes:
            cells = [
                str(len(mistake.students)),
                f"**{_cell(name_of(mistake, language))}**",
                _cell(_check(survey, mistake, language)),
                _cell(sections_of(mistake, language)),
                ", ".join(escape.markdown(one).replace("|", "\\|") for one in mistake.students),
            ]
            told.append("| " + " | ".join(cells) + " |")
    else:
        told.append(wording("none", language))
    return "\n".join([*told, "", *others(survey, language)]) + "\n"


def table(survey: MistakeCounts, language: str) -> str:
    """CSV (commas, ``\\n``) with the columns ``COLUMNS``; students joined by ``; ``."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for mistake in survey.mistakes:
        cells = [
            escape.csv_cell(name_of(mistake, language)),
            escape.csv_cell(_groups(mistake)),
            escape.csv_list(mistake.students),
            str(len(mistake.students)),
            escape.csv_cell(_check(survey, mistake, language)),
            escape.csv_cell(sections_of(mistake, language)),
        ]
        writer.writerow(cells)
    return stream.getvalue()


def name_of(mistake: Mistake, language: str) -> str:
    """Return what is said of it: its name, or how sure it is and which ones it may be."""
    names = _OR[language].join(escape.line(one.name.in_(language)) for one in mistake.words)
    if mistake.key == "named":
        return names
    if mistake.key == "either":
        return wording("class_either", language, names=names)
    if mistake.key == "looks_like":
        return wording("class_looks_like", language, names=names)
    return wording("class_looks_like_either", language, names=names)


def _groups(mistake: Mistake) -> str:
    return "; ".join(dict.fromkeys(escape.line(one.group) for one in mistake.words))


def sections_of(mistake: Mistake, language: str) -> str:
    """Titles of the sections to teach again; the group, where the lab has no section for it."""
    titles = (section_of(one, language) or escape.line(one.group) for one in mistake.words)
    return "; ".join(dict.fromkeys(titles))


def _check(survey: MistakeCounts, mistake: Mistake, language: str) -> str:
    """The check that revealed it most often, and how many others did so, too."""
    titles = {check.name: check.title.in_(language) for check in survey.lab.checks}
    names = revealing(survey.lab, mistake)
    if not names:
        return ""
    title = escape.line(titles.get(names[0], names[0]).replace("`", ""))
    if len(names) == 1:
        return title
    return wording("more_checks", language, title=title.rstrip(".。"), count=len(names) - 1)


def others(survey: MistakeCounts, language: str) -> list[str]:
    """Return how much is not explained: in the hand-ins that lost points nothing was recognised."""
    if not survey.failing:
        return [wording("nobody_lost", language)]
    count = survey.wrong + survey.silent + survey.files
    told = [wording("others", language, count=count, failing=survey.failing)]
    if count:
        values = {"wrong": survey.wrong, "silent": survey.silent, "files": survey.files}
        told.append(wording("others_why", language, **values))
    return told


def _cell(text: str) -> str:
    return escape.prose(escape.line(text))

"""What each part of the class's page shows, as plain strings and numbers for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from autograder.course.records import Lab, Outcome
from autograder.report import escape
from autograder.report.class_mistakes import Mistake, Survey
from autograder.report.class_mistakes_text import name_of, sections_of
from autograder.report.glance import BINS, Glance, Person
from autograder.report.redacted import private
from autograder.report.view import label

NAMES = 600  # under all mistakes together
MISTAKES = 60
_NAME = 40  # signs of one


@dataclass(frozen=True)
class Who:
    """A hand-in by name and by number; ``href`` leads to its report."""

    name: str
    number: int
    href: str


@dataclass(frozen=True)
class Bar:
    """One bar of the histogram: from ``first`` to ``last`` points; ``open`` are to be decided.

    ``raw`` were as many, of the decided ones, before lateness took points off.
    """

    first: int
    last: int
    decided: int
    open: int
    raw: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.decided + self.open


@dataclass(frozen=True)
class CheckRow:
    """One check; ``number`` is that of its column. ``wrong`` came as far and did not pass.

    Where the file could not be used nobody came as far.
    """

    number: int
    title: str
    passed: int
    wrong: int
    graded: int


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise and its checks that are shown."""

    name: str
    title: str
    checks: tuple[CheckRow, ...]


@dataclass(frozen=True)
class MistakeRow:
    """One mistake; ``sees`` is empty where it may be one of several."""

    name: str
    section: str
    sees: str
    count: int
    who: tuple[Who, ...]


def who(person: Person, numbers: Mapping[str, int]) -> Who:
    """How a hand-in is named."""
    name = escape.line(", ".join(person.names) or person.student)
    name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    # A lone surrogate, which no file name of ours holds, must not end the page.
    href = quote(person.student, safe="", errors="replace") + "/report.html"
    return Who(name, numbers[person.student], href)


def shown(lab: Lab, glance: Glance) -> list[int]:
    """Places of the checks that are columns: optional ones only where most were asked them."""
    return [
        place
        for place, check in enumerate(lab.checks)
        if not check.optional or 2 * glance.passed(check.name)[1] > glance.count
    ]


def bars(glance: Glance) -> tuple[Bar, ...]:
    """The histogram, by tenths of the points."""
    points = glance.lab.points
    starts = [-(-points * place // BINS) for place in range(BINS)]
    ends = [*(start - 1 for start in starts[1:]), points]
    return tuple(
        Bar(first, last, decided, undecided, raw)
        for first, last, (decided, undecided), raw in zip(
            starts, ends, glance.histogram(), glance.raw_histogram(), strict=True
        )
    )


def exercises(
    lab: Lab, glance: Glance, places: Sequence[int], language: str
) -> tuple[ExerciseRow, ...]:
    """Exercises with those of their checks that are shown."""
    numbers = {lab.checks[place].name: number for number, place in enumerate(places, start=1)}
    found = []
    for exercise in lab.exercises:
        checks = tuple(
            _check(glance, check.name, numbers[check.name], check.title.in_(language))
            for check in exercise.checks
            if check.name in numbers
        )
        if checks:
            name = exercise.id.split(".", 1)[-1]
            found.append(ExerciseRow(name, exercise.title.in_(language), checks))
    return tuple(found)


def _check(glance: Glance, name: str, number: int, title: str) -> CheckRow:
    outcomes = glance.outcomes[name]
    passed, graded = glance.passed(name)
    begun = graded - outcomes[Outcome.NOT_STARTED] - outcomes[Outcome.SKIPPED]
    begun -= glance.unusable[name]
    return CheckRow(number, title, passed, begun - passed, graded)


def hardest(exercises: Sequence[ExerciseRow], count: int) -> list[CheckRow]:
    """The checks that the smallest share passed of those who came as far."""
    wrong = [check for one in exercises for check in one.checks if check.wrong]
    wrong.sort(key=lambda check: (check.passed / (check.passed + check.wrong), check.number))
    return wrong[:count]


def mistakes(survey: Survey, who: Mapping[str, Who], language: str) -> list[MistakeRow]:
    """The most frequent first, with whom it concerns as far as there is room."""
    found, room = [], NAMES
    for mistake in survey.mistakes[:MISTAKES]:
        names = tuple(who[student] for student in mistake.students if student in who)
        if len(names) < len(mistake.students) or len(names) > room:
            names = ()
        room -= len(names)
        found.append(
            MistakeRow(
                name_of(mistake, language),
                sections_of(mistake, language),
                _sees(mistake, language),
                len(mistake.students),
                names,
            )
        )
    return found


def _sees(mistake: Mistake, language: str) -> str:
    return escape.line(mistake.words[0].sees.in_(language)) if len(mistake.words) == 1 else ""


def needs(person: Person, lab: Lab, language: str) -> list[str]:
    """Why somebody has to look, as sentences."""
    known = {*lab.files, *lab.forbidden}
    told = [private(mark, language, known) for mark in person.marks]
    told += broken(person, lab, language)
    if person.score.undecided:
        told.append(label("to_be_decided", language, points=person.score.undecided))
    return told


def broken(person: Person, lab: Lab, language: str) -> list[str]:
    """Which files could not be used, and what depends on them, as sentences."""
    told = []
    for one in person.broken:
        said = private(one.message, language, {*lab.files, *lab.forbidden})
        points = label("depends", language, points=one.points) if one.points else ""
        told.append(("" if language == "zh" else " ").join(filter(None, (said, points))))
    return told

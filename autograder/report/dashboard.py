"""``dashboard.html``: the class at a glance in one file that needs nothing else.

What an instructor reads first is how the class did, what to teach again, and who needs them; the
map of students and checks comes below. Without scripts everything can be read; a few lines of
script sort and filter the map and show reasons beside it.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from autograder.course.messages import render
from autograder.course.records import ClassRecord, Lab, Message, Outcome
from autograder.report import escape
from autograder.report.class_mistakes import Mistake, MistakeCounts, name_of, others, sections_of
from autograder.report.class_summary import BINS, Cell, ClassSummary, Person, covered, private
from autograder.report.student_pages import environment, graded
from autograder.report.view import GLYPHS, label, why

if TYPE_CHECKING:
    from markupsafe import Markup


# The map of students and checks: one letter per cell, and every reason once.

LETTERS = {
    Outcome.PASSED: "p",
    Outcome.FAILED: "f",
    Outcome.NOT_STARTED: "n",
    Outcome.SKIPPED: "s",
    Outcome.CRASHED: "c",
    Outcome.TIMED_OUT: "t",
    Outcome.NOT_GRADED: "g",
}
REASONS = 30_000  # bytes of all reasons: the page stays below 200 KB


@dataclass(frozen=True)
class CellView:
    """One cell: its letter, its sign, where its reason stands ("": it has none), who decided."""

    letter: str
    glyph: str
    reason: str
    decided: bool


@dataclass(frozen=True)
class Map:
    """The cells by row, and the reasons by place (a letter and a number).

    Of the rarest ``left_out`` reasons there was no room for.
    """

    rows: tuple[tuple[CellView, ...], ...]
    reasons: tuple[tuple[str, str], ...]
    left_out: int


def map_of(lab: Lab, people: list[Person], shown: list[int], language: str) -> Map:
    """Cells of the checks at the places ``shown``; the most frequent reasons are kept."""
    known = {*lab.files, *lab.forbidden, *(check.title.in_(language) for check in lab.checks)}
    rows = [[person.cells[place] for place in shown] for person in people]
    said = [[_reason(cell, known, language) for cell in row] for row in rows]
    often = Counter(reason for row in said for reason in row if reason[1])
    places: dict[tuple[str, str], str] = {}
    room = REASONS
    for reason, _ in often.most_common():
        room -= len(reason[1].encode()) + 20
        if room < 0:
            break
        places[reason] = f"{reason[0]}{len(places) + 1}"
    return Map(
        tuple(
            tuple(
                CellView(letter, GLYPHS[cell.result.outcome], place, cell.decided is not None)
                for cell, (letter, text) in zip(row, reasons, strict=True)
                for place in [places.get((letter, text), "")]
            )
            for row, reasons in zip(rows, said, strict=True)
        ),
        tuple((place, text) for (_, text), place in places.items()),
        len(often) - len(places),
    )


def _reason(cell: Cell, known: set[str], language: str) -> tuple[str, str]:
    """The cell's letter, and what is said of it."""
    texts = []
    if cell.decided is not None:
        values = {"by": covered(cell.decided.by), "reason": covered(cell.decided.reason)}
        texts.append(label("decided", language, **values))
    message = why(cell.result)
    if message is not None:
        texts.append(private(message, language, known))
    return LETTERS[cell.result.outcome], " ".join(texts)


# What each part of the class's page shows, as plain strings and numbers for the template.

NAMES = 600  # under all mistakes together
MISTAKES = 60
_NAME = 40  # signs of one


@dataclass(frozen=True)
class StudentLink:
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
    who: tuple[StudentLink, ...]


def named_students(person: Person, numbers: Mapping[str, int]) -> StudentLink:
    """Return how a hand-in is named."""
    name = escape.line(", ".join(person.names) or person.student)
    name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    # A lone surrogate, which no file name of ours holds, must not end the page.
    href = quote(person.student, safe="", errors="replace") + "/report.html"
    return StudentLink(name, numbers[person.student], href)


def shown(lab: Lab, glance: ClassSummary) -> list[int]:
    """Places of the checks that are columns: optional ones only where most were asked them."""
    return [
        place
        for place, check in enumerate(lab.checks)
        if not check.optional or 2 * glance.passed(check.name)[1] > glance.count
    ]


def bars(glance: ClassSummary) -> tuple[Bar, ...]:
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


def exercise_rows(
    lab: Lab, glance: ClassSummary, places: Sequence[int], language: str
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


def _check(glance: ClassSummary, name: str, number: int, title: str) -> CheckRow:
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


def mistakes(
    survey: MistakeCounts, who: Mapping[str, StudentLink], language: str
) -> list[MistakeRow]:
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
    """Return which files could not be used, and what depends on them, as sentences."""
    told = []
    for one in person.broken:
        said = private(one.message, language, {*lab.files, *lab.forbidden})
        points = label("depends", language, points=one.points) if one.points else ""
        told.append(("" if language == "zh" else " ").join(filter(None, (said, points))))
    return told


HARDEST = 5
STYLE, FIRST, SCRIPT = "dashboard.css.j2", "dashboard_first.js.j2", "dashboard.js.j2"


def page(record: ClassRecord, glance: ClassSummary, survey: MistakeCounts, language: str) -> str:
    """The file's text in ``language`` (``en`` or ``zh``).

    Args:
        record: the class; its hand-ins are not looked at.
        glance: what was gathered of them.
        survey: their mistakes.

    Raises:
        jinja2.UndefinedError: the template names a value that is not there.
    """
    template = environment().get_template("dashboard.html.j2")
    return template.render(_context(record, glance, survey, language))


def _context(
    record: ClassRecord, glance: ClassSummary, survey: MistakeCounts, language: str
) -> dict[str, Any]:
    def phrase(name: str, **values: object) -> str:
        return render(Message(f"dashboard.{name}", values), language)

    lab, numbers = record.lab, glance.numbers()
    known = (*glance.people, *glance.broken)
    who = {person.student: named_students(person, numbers) for person in known}
    people = sorted(glance.people, key=lambda p: (not p.human, p.final, numbers[p.student]))
    places = shown(lab, glance)
    exercises = exercise_rows(lab, glance, places, language)
    outcomes = [(one, render(Message(f"outcome.{one.value}"), language)) for one in Outcome]
    missing = [escape.line(one.name or one.id or one.email) for one in record.missing]
    return {
        "language": {"zh": "zh-CN"}.get(language, "en"),
        "say": phrase,
        "label": lambda name, **values: label(name, language, **values),
        "title": lab.title.in_(language),
        "points": lab.points,
        "glance": glance,
        "missing": missing,
        "late": [who[person.student] for person in people if person.late],
        "bars": bars(glance),
        "exercises": exercises,
        "hardest": hardest(exercises, HARDEST),
        "mistakes": mistakes(survey, who, language),
        "unexplained": others(survey, language) if survey.failing else [],
        "human": [(who[p.student], needs(p, lab, language)) for p in people if p.human],
        "broken": [(who[p.student], broken(p, lab, language)) for p in glance.broken],
        "people": [(person, who[person.student]) for person in people],
        "map": map_of(lab, people, places, language),
        "legend": [(LETTERS[one], GLYPHS[one], word) for one, word in outcomes],
        "graded": graded(record, language),
        "style": _source(STYLE),
        "first_script": _source(FIRST),
        "script": _source(SCRIPT),
        "hashes": tuple(_hash(name) for name in (STYLE, FIRST, SCRIPT)),
    }


@cache
def _source(name: str) -> Markup:
    """A style sheet or script of ours, as it stands in the page."""
    from markupsafe import Markup

    return Markup(environment().get_template(name).render().strip())


def _hash(name: str) -> str:
    """Return what the page's Content-Security-Policy allows: this very text, and no other."""
    digest = hashlib.sha256(str(_source(name)).encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()

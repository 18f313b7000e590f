"""``dashboard.html``: the class at a glance in one file that needs nothing else.

What an instructor reads first is how the class did, what to teach again, and who needs them; the
map of students and checks comes below. Without scripts everything can be read; a few lines of
script sort and filter the map and show reasons beside it.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any

from autograder.course.messages import render
from autograder.course.records import ClassRecord, Message, Outcome
from autograder.report import dashboard_parts as parts
from autograder.report import escape
from autograder.report.class_mistakes import Survey
from autograder.report.class_mistakes_text import others
from autograder.report.dashboard_cells import LETTERS, map_of
from autograder.report.glance import Glance
from autograder.report.html import environment, graded
from autograder.report.view import GLYPHS, label

if TYPE_CHECKING:
    from markupsafe import Markup

HARDEST = 5
STYLE, FIRST, SCRIPT = "dashboard.css.j2", "dashboard_first.js.j2", "dashboard.js.j2"


def page(record: ClassRecord, glance: Glance, survey: Survey, language: str) -> str:
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


def _context(record: ClassRecord, glance: Glance, survey: Survey, language: str) -> dict[str, Any]:
    def phrase(name: str, **values: object) -> str:
        return render(Message(f"dashboard.{name}", values), language)

    lab, numbers = record.lab, glance.numbers()
    known = (*glance.people, *glance.broken)
    who = {person.student: parts.who(person, numbers) for person in known}
    people = sorted(glance.people, key=lambda p: (not p.human, p.final, numbers[p.student]))
    places = parts.shown(lab, glance)
    exercises = parts.exercises(lab, glance, places, language)
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
        "bars": parts.bars(glance),
        "exercises": exercises,
        "hardest": parts.hardest(exercises, HARDEST),
        "mistakes": parts.mistakes(survey, who, language),
        "unexplained": others(survey, language) if survey.failing else [],
        "human": [(who[p.student], parts.needs(p, lab, language)) for p in people if p.human],
        "broken": [(who[p.student], parts.broken(p, lab, language)) for p in glance.broken],
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
    """What the page's Content-Security-Policy allows: this very text, and no other."""
    digest = hashlib.sha256(str(_source(name)).encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()

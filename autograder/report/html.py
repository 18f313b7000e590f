"""A student's score report as one HTML file that needs nothing else: no script, no address."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course.records import ClassRecord, HandIn
from autograder.report import escape
from autograder.report.first_step import first_step
from autograder.report.recognised import recognised, wording
from autograder.report.redacted import marked_up
from autograder.report.view import label, student_view

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
_CODE = re.compile(r"`([^`]+)`")


def student(record: ClassRecord, hand_in: HandIn, language: str) -> str:
    """The report of one hand-in in ``language`` (``en`` or ``zh``).

    Raises:
        jinja2.UndefinedError: the template names a value that is not there.
    """
    template = environment().get_template("student.html.j2")
    return template.render(context(record, hand_in, language))


def context(record: ClassRecord, hand_in: HandIn, language: str) -> dict[str, Any]:
    """The values that the template uses, by name."""

    def phrase(name: str, **values: object) -> str:
        return label(name, language, **values)

    view = student_view(record, hand_in, language, quote=escape.line)
    return {
        "view": view,
        "next": first_step(record.lab, hand_in, view, language),
        "recognised": {
            "title": wording("title", language),
            "intro": wording("intro", language),
            "findings": recognised(record.lab, hand_in, language, quote=escape.line),
        },
        "graded": graded(record, language),
        "language": {"zh": "zh-CN"}.get(language, "en"),
        "label": phrase,
    }


def graded(record: ClassRecord, language: str) -> tuple[str, ...]:
    """How a class was graded: cases, isolation, releases."""
    isolation = record.isolation
    layers = ", ".join(isolation.layers) or label("no_layers", language)
    levels = {"level": isolation.level, "layers": layers, "worker": isolation.worker}
    versions = ", ".join(f"{name} {value}" for name, value in record.versions.items())
    return (
        label("cases", language, public=record.public_cases, hidden=record.hidden_cases),
        label("isolation", language, **levels),
        label("versions", language, versions=versions),
    )


@cache
def environment() -> Environment:
    """The template engine: everything escaped, a missing value is an error, compiled once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # slow to import

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["code"] = _code
    made.filters["line"] = escape.line
    made.filters["private"] = marked_up
    return made


def _code(text: str) -> Markup:
    """The course's own words, escaped; what stands in backticks becomes ``<code>``."""
    from markupsafe import Markup
    from markupsafe import escape as escaped

    return Markup(_CODE.sub(r"<code>\1</code>", str(escaped(text))))

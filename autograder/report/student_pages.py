"""A student's score report in Markdown (CommonMark with GitHub's tables)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course.records import ClassRecord, HandIn, Score
from autograder.report import escape
from autograder.report.class_summary import marked_up
from autograder.report.hints import FindingView, recognised, wording
from autograder.report.next_step import FirstStep, first_step
from autograder.report.view import CheckView, ExerciseView, label, student_view

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def student_markdown(record: ClassRecord, hand_in: HandIn, language: str) -> str:
    """The report of one hand-in in ``language`` (``en`` or ``zh``).

    Student text stands in code spans or fences that it cannot close: no link, image, HTML or
    table can come from it.
    """
    view = student_view(record, hand_in, language, quote=escape.markdown)
    lines = [
        f"# {_text(view.lab)} · {escape.markdown(view.student)}",
        "",
        f"**{_score(view.score, language)}** · "
        + label("checks_passed", language, passed=view.passed, count=view.count)
        + (f" · {label('decided_short', language)}" if view.changed else ""),
        "",
    ]
    lines += [line for one in view.decided for line in (one, "")]
    for one in view.broken:
        lines += [f"> **✗ {one.said}**", ""]
        lines += _blocks(one.trace, one.prints, language)
    if view.late:
        lines += [view.late, ""]
    if view.about:
        lines += [" · ".join(view.about), ""]
    if view.score.undecided:
        lines += [label("undecided_why", language), ""]
    step = first_step(record.lab, hand_in, view, language)
    lines += _next(step, language)
    marks = "marks_seen" if view.looked_at else "marks"
    for heading, sentences in ((marks, view.marks), ("notes", view.notes)):
        if sentences:
            lines += [f"## {label(heading, language)}", ""]
            lines += [f"- {each}" for each in sentences] + [""]
    findings = recognised(record.lab, hand_in, language, quote=escape.markdown)
    lines += _recognised(findings, language) if findings else []
    lines += [f"## {label('exercises', language)}", ""]
    for exercise in view.exercises:
        lines += _exercise(exercise, language, told=step.hint)
    apart = bool(view.decided) or any(one.decided for one in view.exercises)
    lines += _families(view.families, language, apart=apart)
    lines += _how(record, language)
    return "\n".join(lines) + "\n"


def _next(step: FirstStep, language: str) -> list[str]:
    lines = [f"## {label('next', language)}", ""]
    if not step.title:
        return [*lines, step.said, ""]
    lines += [f"**{_text(step.title)}**" + (f" · {step.said}" if step.said else ""), ""]
    lines += [step.reason, ""] if step.reason else []
    lines += [f"> {escape.prose(step.hint)}", ""] if step.hint else []
    lines += [f"{label('next_check', language)} `{step.command}`", ""] if step.command else []
    return lines


def _recognised(findings: tuple[FindingView, ...], language: str) -> list[str]:
    lines = [f"## {wording('title', language)}", "", wording("intro", language), ""]
    for finding in findings:
        lines += [f"### {_text(finding.exercises)}", ""]
        told = "".join(
            f"**{escape.prose(piece)}**" if name else escape.prose(piece)
            for piece, name in finding.said
        )
        mistakes = [
            _together(language, *map(escape.prose, (one.sees, one.hint, one.section)))
            for one in finding.mistakes
        ]
        if len(mistakes) == 1:
            lines += [_together(language, told, *mistakes), ""]
        else:
            lines += [told, ""] if told else []
            for one, text in zip(finding.mistakes, mistakes, strict=True):
                name = f"**{escape.prose(one.name)}** — " if one.name else ""
                lines.append(f"- {name}{text}")
            lines += [""] if mistakes else []
        lines += [f"- {each}" for each in finding.known] + [""] * bool(finding.known)
    return lines


def _together(language: str, *sentences: str) -> str:
    return ("" if language == "zh" else " ").join(filter(None, sentences))


def _exercise(exercise: ExerciseView, language: str, *, told: str) -> list[str]:
    score = _score(exercise.score, language)
    lines = [
        f"### {_text(exercise.title)} · {score}",
        "",
        f"`{escape.line(exercise.id)}` · `{escape.line(exercise.file)}`",
        "",
    ]
    lines += [line for one in exercise.decided for line in (one, "")]
    for check in exercise.apart:
        lines += _check(check, language)
    lines += [f"- {exercise.waits}"] if exercise.waits else []
    lines.append("")
    if exercise.hint and exercise.hint != told:  # which stands above already
        lines += [f"> **{label('hint', language)}:** {_text(exercise.hint)}", ""]
    return lines


def _check(check: CheckView, language: str) -> list[str]:
    tags = [_text(check.family)]
    if check.open and check.points:
        tags.append(label("to_be_decided", language, points=check.points))
    elif check.points:
        tags.append(label("points_short", language, earned=check.earned, total=check.points))
    tags += [label("hidden", language)] if check.hidden else []
    tags += [label("optional", language)] if check.optional else []
    lines = [f"- {check.glyph} **{check.word}** · {_text(check.title)} · {' · '.join(tags)}"]
    for text in (check.decided, check.reason):
        lines += ["", f"  {text}"] if text else []
    blocks = _blocks(check.trace, check.prints, language, "  ")
    lines += ["", *blocks[:-1]] if blocks else []
    return [*lines, ""] if len(lines) > 1 else lines


def _blocks(trace: str, prints: str, language: str, indent: str = "") -> list[str]:
    lines = []
    for heading, block in (("trace", trace), ("prints", prints)):
        if block:
            lines += [f"{indent}{label(heading, language)}:", "", escape.fence(block, indent), ""]
    return lines


def _families(families: tuple[tuple[str, Score], ...], language: str, *, apart: bool) -> list[str]:
    lines = [f"## {label('families', language)}", ""]
    lines += [label("families_apart", language), ""] if apart else []
    lines += [f"| {label('family', language)} | {label('score', language)} |", "| --- | ---: |"]
    lines += [f"| {_text(family)} | {_score(score, language)} |" for family, score in families]
    return [*lines, ""]


def _cases(record: ClassRecord, language: str) -> list[str]:
    words = label("cases", language, public=record.public_cases, hidden=record.hidden_cases)
    return [words, *([label("tests", language)] if record.lab.tests else [])]


def _how(record: ClassRecord, language: str) -> list[str]:
    isolation = record.isolation
    layers = ", ".join(isolation.layers) or label("no_layers", language)
    versions = ", ".join(f"{name} {value}" for name, value in record.versions.items())
    return [
        f"## {label('how', language)}",
        "",
        *(f"- {line}" for line in _cases(record, language)),
        "- "
        + label(
            "isolation",
            language,
            level=escape.markdown(isolation.level),
            layers=escape.markdown(layers),
            worker=escape.markdown(isolation.worker),
        ),
        "- " + label("versions", language, versions=escape.markdown(versions)),
    ]


def _score(score: Score, language: str) -> str:
    if score.undecided:
        return label(
            "undecided",
            language,
            earned=score.earned,
            gradable=score.gradable,
            undecided=score.undecided,
        )
    return label("points", language, earned=score.earned, total=score.total)


def _text(text: str) -> str:
    """The course's own words: may hold Markdown, but neither line nor table breaks."""
    return escape.line(text).replace("|", "\\|")


# A student's score report as one HTML file that needs nothing else: no script, no address.

TEMPLATES = Path(__file__).parent / "templates"
_CODE = re.compile(r"`([^`]+)`")


def student_html(record: ClassRecord, hand_in: HandIn, language: str) -> str:
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
    """Return how a class was graded: cases, isolation, releases."""
    isolation = record.isolation
    layers = ", ".join(isolation.layers) or label("no_layers", language)
    levels = {"level": isolation.level, "layers": layers, "worker": isolation.worker}
    versions = ", ".join(f"{name} {value}" for name, value in record.versions.items())
    return (
        *_cases(record, language),
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

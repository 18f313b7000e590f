"""What a written report is graded by: ``solutions/report/report.toml`` as a lab of its own.

Sections become exercises, numbers and texts checks, so that scores, tables, reports of students
and decisions of a person work for it as for any lab.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.labfile import SOLUTIONS, Table
from autograder.course.quantity import KINDS, Field, QuantityError, fields, parse
from autograder.course.records import (
    Check,
    CheckResult,
    Exercise,
    HandIn,
    Lab,
    Limits,
    Message,
    Outcome,
    Submission,
    Text,
    unread,
)
from autograder.grading.engine import digests

PATH = SOLUTIONS / "report" / "report.toml"
NAME = "report"


class FormError(ValueError):
    """The form cannot be used; the text names file, section, key and mend."""


@dataclass(frozen=True)
class Answer:
    """A number that is asked for: ``values`` by what stands in the field ``by``, or by ``""``."""

    id: str
    kind: str
    values: Mapping[str, float]
    by: str = ""


@dataclass(frozen=True)
class Form:
    """The report as a lab, the answers to its numbers, and how a person reads the rest.

    ``tolerance`` is of the relative error. ``rubrics`` are by the name of a check.
    """

    lab: Lab
    answers: Mapping[str, Answer]
    rubrics: Mapping[str, Text]
    tolerance: float

    @property
    def file(self) -> str:
        """The file that is handed in."""
        return self.lab.files[0]


def load(path: Path = PATH) -> Form:
    """Read the form.

    Raises:
        FormError: it is absent, does not parse, or a key is missing, unknown or of another kind.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormError(f"{path}: {error}") from None
    top = Table(f"{path}: top level", raw, ("title", "file", "tolerance", "section"), FormError)
    file, tolerance = top.string("file"), top.value("tolerance", float)
    if not 0 < tolerance < 1:
        raise top.error("tolerance", "must lie between 0 and 1: 0.005 allows half a percent")
    answers: dict[str, Answer] = {}
    rubrics: dict[str, Text] = {}
    exercises = []
    for number, entry in enumerate(top.tables("section"), 1):
        where = f"{path}: section {entry.get('id') or number}"
        section = Table(where, entry, ("id", "title", "answer", "prose"), FormError)
        checks = [
            _answer(raw, where, section.string("id"), answers) for raw in entry.get("answer", ())
        ]
        checks += [
            _prose(raw, where, section.string("id"), rubrics) for raw in entry.get("prose", ())
        ]
        title, empty = section.text("title"), Text("", "")
        exercises.append(
            Exercise(f"{NAME}.{section.string('id')}", file, title, empty, tuple(checks))
        )
    names = [check.name for exercise in exercises for check in exercise.checks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FormError(f"{path}: {twice}: stands twice; every answer and text needs its own id")
    folder = path.parent
    lab = Lab(NAME, folder, top.text("title"), (file,), (), (), Limits(), tuple(exercises))
    return Form(lab, answers, rubrics, tolerance)


def _answer(raw: dict[str, Any], where: str, section: str, into: dict[str, Answer]) -> Check:
    known = ("id", "kind", "value", "values", "by", "points", "title")
    table = Table(f"{where}: answer {raw.get('id', '?')}", raw, known, FormError)
    name, kind = table.string("id"), table.string("kind", KINDS)
    if ("value" in raw) == ("values" in raw) or ("values" in raw) != ("by" in raw):
        raise table.error("value", "give either value, or values and the field that they go by")
    values = raw.get("values", {"": raw.get("value")})
    if not all(type(value) in (int, float) and value > 0 for value in values.values()):
        raise table.error("value", "must be a number above 0, in base units (bytes, things)")
    into[name] = Answer(name, kind, values, raw.get("by", ""))
    return _check(table, section, "accounting")


def _prose(raw: dict[str, Any], where: str, section: str, into: dict[str, Text]) -> Check:
    known = ("id", "points", "title", "rubric")
    table = Table(f"{where}: prose {raw.get('id', '?')}", raw, known, FormError)
    into[table.string("id")] = table.text("rubric")
    return _check(table, section, NAME)


def _check(table: Table, section: str, family: str) -> Check:
    points = table.value("points", int)
    if points < 0:
        raise table.error("points", "must be 0 or more")
    return Check(
        table.string("id"),
        f"{NAME}.{section}",
        family,
        points,
        table.text("title"),
        optional=points == 0,
    )


# Grades the numbers of a written report; its prose waits for a person.


def graded(form: Form, submission: Submission) -> HandIn:
    """The record of one report. A file that could not be read fails every number, with why."""
    problem = submission.problems.get("") or submission.problems.get(form.file)
    written = fields(submission.files.get(form.file, ""))
    results = []
    for check in form.lab.checks:
        if problem is not None:
            result = unread(problem)
        elif check.name in form.answers:
            result = _number(form.answers[check.name], written, form.tolerance)
        else:
            result = CheckResult("", Outcome.NOT_GRADED, Message("answer.prose"))
        results.append(CheckResult(check.name, result.outcome, result.message))
    return HandIn(
        submission.student,
        tuple(results),
        submission.notes,
        digests=digests(submission.files),
        origin=submission.origin,
    )


def _number(answer: Answer, written: Mapping[str, Field], tolerance: float) -> CheckResult:
    field = written.get(answer.id)
    if field is None:
        return _failed("absent", field=answer.id)
    if field.empty:
        return CheckResult("", Outcome.NOT_STARTED, Message("answer.empty"))
    key = ""
    if answer.by:
        chosen = written.get(answer.by)
        key = _choice(chosen.text if chosen else "", answer.values)
        if not key:
            return _failed("choice", field=answer.by, known=", ".join(answer.values))
    try:
        got = parse(field.text, answer.kind)
    except QuantityError as error:
        return _failed(error.why, written=field.text)
    want = answer.values[key]
    if abs(got - want) <= tolerance * want:
        return CheckResult("", Outcome.PASSED)
    return _failed("wrong", written=field.text, percent=100 * tolerance)


def _choice(text: str, known: Mapping[str, float]) -> str:
    """The size that was chosen, however it is spelt; empty if it is none of them."""

    def plain(name: str) -> str:
        return name.strip(" _").lower().removeprefix("qwen3").strip("- ").replace(" ", "")

    return next((name for name in known if plain(name) == plain(text)), "")


def _failed(key: str, **values: object) -> CheckResult:
    return CheckResult("", Outcome.FAILED, Message(f"answer.{key}", values))

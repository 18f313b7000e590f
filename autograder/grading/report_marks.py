"""Grades the numbers of a written report; its prose waits for a person."""

from __future__ import annotations

from collections.abc import Mapping

from autograder.course.answer_fields import Field, fields
from autograder.course.quantity import QuantityError, parse
from autograder.course.records import CheckResult, HandIn, Message, Outcome, Submission, unread
from autograder.grading.engine import digests
from autograder.grading.report_form import Answer, Form


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

"""Gradescope's ``results.json`` of one graded hand-in.

Read in gradescope/autograder_samples: docs/specs.md. Every test is ``visible``: one that is shown
only later would keep the total from students, and a check's text never tells more of a hidden case
than that it was one. What the autograder prints stays hidden.

A check that could not be graded has neither score nor status, and the total is that of the others;
where nothing could be graded there is no total, either. That is no zero: Gradescope then has no
score for this hand-in until the autograder is run again or a person enters one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from autograder.course.messages import render
from autograder.course.records import ClassRecord, HandIn, Lab, Message
from autograder.course.score import final_of, late_penalty_of, score_of
from autograder.exports.checks import CheckLine, check_lines, prints_of, title_of
from autograder.report import escape
from autograder.report.recognised import recognised, wording
from autograder.report.view import family_name, label, student_view

_FORMATS = {
    "output_format": "text",
    "test_output_format": "text",
    "test_name_format": "text",
    "visibility": "visible",
    "stdout_visibility": "hidden",
}


def results(
    record: ClassRecord, hand_in: HandIn, language: str, seconds: float | None = None
) -> dict[str, Any]:
    """What ``results.json`` holds.

    Args:
        record: lab, isolation and counts of cases; its hand-ins do not matter.
        hand_in: the graded hand-in.
        language: ``en`` or ``zh``.
        seconds: of wall-clock time that grading took, where that is known.
    """
    score = score_of(record.lab, hand_in)
    told: dict[str, Any] = {"score": final_of(record.lab, hand_in)} if score.gradable else {}
    if seconds is not None:
        told["execution_time"] = round(seconds)
    lines = list(check_lines(record, hand_in, language))
    return {
        **told,
        "output": "\n".join(_output(record, hand_in, language)),
        **_FORMATS,
        "extra_data": {
            "lab": record.lab.name,
            "earned": score.earned,
            "late_penalty": late_penalty_of(record.lab, hand_in),
            "to_be_decided": score.undecided,
            "isolation": record.isolation.level,
        },
        "tests": [_test(line, language) for line in lines if line.state != "absent"],
    }


def not_graded(lab: Lab, language: str) -> dict[str, Any]:
    """What ``results.json`` holds where the grader itself has failed: texts, and no score."""
    word = render(Message("outcome.not_graded"), language)
    return {
        "output": render(Message("results.not_graded"), language),
        **_FORMATS,
        "extra_data": {"lab": lab.name, "to_be_decided": lab.points},
        "tests": [
            {
                "name": f"{exercise.id}: {check.title.in_(language).replace('`', '')}",
                "number": f"{place}.{number}",
                "max_score": check.points,
                "tags": [family_name(check.family, language)],
                "visibility": "visible",
                "output": word,
            }
            for place, exercise in enumerate(lab.exercises, 1)
            for number, check in enumerate(exercise.checks, 1)
            if not check.optional
        ],
    }


def text_of(document: dict[str, Any]) -> str:
    """The file's text: ASCII, so that no reader has to guess an encoding."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _test(line: CheckLine, language: str) -> dict[str, Any]:
    view = line.view
    told: dict[str, Any] = {
        "name": title_of(line),
        "number": line.number,
        "max_score": view.points,
        "tags": [view.family],
        "visibility": "visible",
    }
    if line.state != "open":
        told["score"] = view.earned
        told["status"] = "passed" if line.state == "passed" else "failed"
    if line.state != "passed" or view.decided:
        told["output"] = "\n\n".join(filter(None, (line.text, prints_of(line, language))))
    return told


def _output(record: ClassRecord, hand_in: HandIn, language: str) -> Iterator[str]:
    """What is said of the whole hand-in, as in the student's report."""
    view = student_view(record, hand_in, language, quote=escape.line)
    if view.about:
        yield " · ".join(view.about)
    if view.late:
        yield view.late
    if view.score.undecided:
        yield label("undecided_why", language)
        yield label("to_be_decided", language, points=view.score.undecided)
    yield from (one.said for one in view.broken)
    yield from view.decided
    yield from (said for one in view.exercises for said in one.decided)
    for heading, sentences in (
        ("marks_seen" if view.looked_at else "marks", view.marks),
        ("notes", view.notes),
    ):
        if sentences:
            yield ""
            yield label(heading, language)
            yield from (f"- {one}" for one in sentences)
    yield from _mistakes(record, hand_in, language)
    yield ""
    yield label("cases", language, public=record.public_cases, hidden=record.hidden_cases)
    isolation = record.isolation
    layers = ", ".join(isolation.layers) or label("no_layers", language)
    values = {"level": isolation.level, "layers": layers, "worker": isolation.worker}
    yield label("isolation", language, **values)


def _mistakes(record: ClassRecord, hand_in: HandIn, language: str) -> Iterator[str]:
    found = recognised(record.lab, hand_in, language, quote=escape.line)
    if found:
        yield ""
        yield wording("title", language)
    for finding in found:
        said = "".join(piece for piece, _ in finding.said)
        yield f"- {finding.exercises}: {said}".rstrip()
        for one in finding.mistakes:
            yield from (f"  {text}" for text in (one.sees, one.hint, one.section) if text)
        yield from (f"  {text}" for text in finding.known)

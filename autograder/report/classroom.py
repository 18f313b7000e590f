"""Results of one's own checks as JSON, in the shape of Classroom 50's ``result.json``.

Fields: foundation50/classroom50, ``wiki/Advanced-Autograding.md``; what else a test holds is kept
there as it is. What could not be checked is neither in ``score`` nor in ``max-score``.
"""

from __future__ import annotations

import json
from typing import Any

from autograder.course.messages import render
from autograder.course.records import CheckResult, ClassRecord, Message, Outcome
from autograder.course.score import score_of
from autograder.report.escape import block, line

MAX_OUTPUT = 500  # characters of what a test printed


def text_of(record: ClassRecord, language: str) -> str:
    """One line of ASCII JSON.

    Args:
        record: holds exactly one hand-in.
        language: ``en`` or ``zh``.
    """
    return json.dumps(document(record, language), separators=(",", ":")) + "\n"


def document(record: ClassRecord, language: str) -> dict[str, Any]:
    """The results as plain data, in whole points."""
    (hand_in,) = record.hand_ins
    results = {result.check: result for result in hand_in.results}
    tests = []
    for exercise in record.lab.exercises:
        for check in exercise.checks:
            result = results.get(check.name)
            if result is None or result.outcome is Outcome.NOT_GRADED:
                continue
            passed = result.outcome is Outcome.PASSED
            told: dict[str, Any] = {
                "test-name": f"{exercise.id}: {line(check.title.in_(language))}"
            }
            told |= {"passed": passed, "score": check.points if passed else 0}
            told |= {"max-score": check.points, "file": exercise.file}
            tests.append(told | _said(result, language))
    score = score_of(record.lab, hand_in)
    return {"score": score.earned, "max-score": score.gradable, "tests": tests}


def _said(result: CheckResult, language: str) -> dict[str, Any]:
    """The sentence, what was printed (its end), and where; each as far as there is one."""
    told: dict[str, Any] = {}
    if result.outcome is not Outcome.PASSED:
        word = render(Message(f"outcome.{result.outcome.value}"), language)
        why = line(render(result.message, language)) if result.message is not None else ""
        told["message"] = f"{word}: {why}" if why else word
    if result.frames:
        told["line"] = result.frames[-1].line
    if result.prints:
        told["output"] = block(result.prints)[-MAX_OUTPUT:]
    return told

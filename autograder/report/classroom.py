"""Results of one's own checks as GitHub Classroom's reporter reads them: its JSON, version 3.

Fields: classroom-resources/autograding-python-grader ``runner/data.py``, and
exercism/docs test-runners/interface.md, from where they come. The reporter adds up ``score`` of the
tests and shows it as points of ``max_score``; what could not be checked is in neither.
"""

from __future__ import annotations

import json
from typing import Any

from autograder.course.messages import render
from autograder.course.records import CheckResult, ClassRecord, Message, Outcome
from autograder.course.score import score_of
from autograder.report.escape import block, line

VERSION = 3
MAX_OUTPUT = 500  # characters of what a test printed


def text_of(record: ClassRecord, language: str) -> str:
    """One line of ASCII JSON.

    Args:
        record: holds exactly one hand-in.
        language: ``en`` or ``zh``.
    """
    return json.dumps(document(record, language), separators=(",", ":")) + "\n"


def document(record: ClassRecord, language: str) -> dict[str, Any]:
    """The results as plain data; ``status`` is ``pass``, ``fail`` or ``error`` (not checked)."""
    (hand_in,) = record.hand_ins
    results = {result.check: result for result in hand_in.results}
    tests = []
    for exercise in record.lab.exercises:
        for check in exercise.checks:
            result = results.get(check.name)
            if result is None or (check.optional and result.outcome is Outcome.NOT_GRADED):
                continue
            status = _status(result)
            title = f"{exercise.id}: {line(check.title.in_(language))}"
            points = check.points if status == "pass" else 0
            told = {"name": title, "status": status, "score": points, "filename": exercise.file}
            tests.append(told | _said(result, language))
    statuses = {test["status"] for test in tests}
    worst = next((one for one in ("error", "fail") if one in statuses), "pass")
    return {
        "version": VERSION,
        "status": worst,
        "max_score": score_of(record.lab, hand_in).gradable,
        "tests": tests,
    }


def _status(result: CheckResult) -> str:
    if result.outcome is Outcome.NOT_GRADED:
        return "error"
    return "pass" if result.outcome is Outcome.PASSED else "fail"


def _said(result: CheckResult, language: str) -> dict[str, Any]:
    """The sentence, what was printed (its end), and where; each as far as there is one."""
    told: dict[str, Any] = {"line_no": 0, "test_code": ""}
    if result.outcome is not Outcome.PASSED:
        word = render(Message(f"outcome.{result.outcome.value}"), language)
        why = line(render(result.message, language)) if result.message is not None else ""
        told["message"] = f"{word}: {why}" if why else word
    if result.frames:
        told["line_no"] = result.frames[-1].line
    if result.prints:
        told["output"] = block(result.prints)[-MAX_OUTPUT:]
    return told

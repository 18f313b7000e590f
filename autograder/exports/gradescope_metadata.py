"""``submission_metadata.json``: whose hand-in Gradescope wants graded, and when it came.

Read in gradescope/autograder_samples: docs/submission_metadata.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.course.records import Origin, Student
from autograder.intake.student_ids import safe_id
from autograder.intake.timestamps import moment


def read(path: Path) -> tuple[str, Origin]:
    """An id for the hand-in, and its origin; what the file does not tell stays empty.

    Never raises: a hand-in is graded even where nobody knows whose it is.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        told = None
    data = told if isinstance(told, dict) else {}
    users = data.get("users")
    students = tuple(
        Student(_text(one, "id") or _text(one, "email"), _text(one, "name"), _text(one, "email"))
        for one in (users if isinstance(users, list) else [])
        if isinstance(one, dict)
    )
    assignment = data.get("assignment")
    due = _text(assignment, "due_date") if isinstance(assignment, dict) else ""
    earlier = data.get("previous_submissions")
    submitted_at = _text(data, "created_at")
    origin = Origin(
        name=f"submission_{_text(data, 'id')}" if _text(data, "id") else "submission",
        students=students,
        submitted_at=submitted_at if moment(submitted_at) else "",
        late=_late(submitted_at, due),
        attempt=1 + (len(earlier) if isinstance(earlier, list) else 0),
    )
    names = [one.name or one.email or one.id for one in students]
    return safe_id(", ".join(names) or origin.name), origin


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _late(submitted_at: str, due: str) -> bool | None:
    """By Gradescope's own due date; None where either time is not known."""
    at, by = moment(submitted_at), moment(due)
    if at is None or by is None or (at.utcoffset() is None) != (by.utcoffset() is None):
        return None
    return at > by

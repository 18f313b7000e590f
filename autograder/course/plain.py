"""Results as plain JSON data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.course.records import CheckResult, Frame, Message, Outcome


def message_to_plain(message: Message | None) -> dict[str, Any] | None:
    """``{"key": …, "values": {…}}`` or None."""
    return None if message is None else {"key": message.key, "values": dict(message.values)}


def message_from_plain(raw: Mapping[str, Any] | None) -> Message | None:
    """The inverse of :func:`message_to_plain`."""
    return None if raw is None else Message(raw["key"], raw["values"])


def result_to_plain(result: CheckResult) -> dict[str, Any]:
    """One check's result, as it stands in ``class.json``."""
    return {
        "check": result.check,
        "outcome": result.outcome.value,
        "message": message_to_plain(result.message),
        "hidden": result.hidden,
        "case": result.case,
        "prints": result.prints,
        "frames": [[f.file, f.line, f.function, f.text] for f in result.frames],
    }


def result_from_plain(raw: Mapping[str, Any]) -> CheckResult:
    """The inverse of :func:`result_to_plain`."""
    return CheckResult(
        check=raw["check"],
        outcome=Outcome(raw["outcome"]),
        message=message_from_plain(raw["message"]),
        hidden=raw["hidden"],
        case=raw["case"],
        prints=raw["prints"],
        frames=tuple(Frame(*frame) for frame in raw["frames"]),
    )

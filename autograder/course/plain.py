"""Results as plain JSON data, and back: between processes, and in ``class.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from autograder.course.late import Extension, LateRules
from autograder.course.records import (
    Certainty,
    CheckResult,
    Finding,
    Frame,
    Message,
    Misconception,
    Outcome,
    Text,
)


def message_to_plain(message: Message) -> dict[str, Any]:
    """``{"key": …, "values": {…}}``."""
    values = {name: _value_out(value) for name, value in message.values.items()}
    return {"key": message.key, "values": values}


def message_from_plain(raw: Mapping[str, Any]) -> Message:
    """The inverse of :func:`message_to_plain`."""
    return Message(raw["key"], {name: _value_in(value) for name, value in raw["values"].items()})


def result_to_plain(result: CheckResult) -> dict[str, Any]:
    """One check's result, as it stands in ``class.json``."""
    return {
        "check": result.check,
        "outcome": result.outcome.value,
        "message": None if result.message is None else message_to_plain(result.message),
        "hidden": result.hidden,
        "case": result.case,
        "prints": result.prints,
        "frames": [vars(frame).copy() for frame in result.frames],
    }


def result_from_plain(raw: Mapping[str, Any]) -> CheckResult:
    """The inverse of :func:`result_to_plain`."""
    return CheckResult(
        check=raw["check"],
        outcome=Outcome(raw["outcome"]),
        message=None if raw["message"] is None else message_from_plain(raw["message"]),
        hidden=raw["hidden"],
        case=raw["case"],
        prints=raw["prints"],
        frames=tuple(Frame(**frame) for frame in raw["frames"]),
    )


def finding_to_plain(finding: Finding) -> dict[str, Any]:
    """One finding, as it stands in ``class.json``."""
    return {
        "exercises": list(finding.exercises),
        "certainty": finding.certainty.value,
        "misconceptions": [asdict(one) for one in finding.misconceptions],
        "either": finding.either,
        "checks": list(finding.checks),
        "known": [message_to_plain(message) for message in finding.known],
    }


def finding_from_plain(raw: Mapping[str, Any]) -> Finding:
    """The inverse of :func:`finding_to_plain`."""
    return Finding(
        exercises=tuple(raw["exercises"]),
        certainty=Certainty(raw["certainty"]),
        misconceptions=tuple(misconception_from_plain(one) for one in raw["misconceptions"]),
        either=raw["either"],
        checks=tuple(raw["checks"]),
        known=tuple(message_from_plain(message) for message in raw["known"]),
    )


def misconception_from_plain(raw: Mapping[str, Any]) -> Misconception:
    """The words for a mistake, from what ``dataclasses.asdict`` makes of them."""
    texts = {key: Text(**raw[key]) for key in ("name", "sees", "hint", "section")}
    return Misconception(**{**raw, **texts})


def _value_out(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"$tuple": [_value_out(item) for item in value]}
    if isinstance(value, list):
        return [_value_out(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _value_out(item) for key, item in value.items()}
        return {"$pairs": [[_value_out(key), _value_out(item)] for key, item in value.items()]}
    return str(value)  # a path, a shape object: what matters is how it reads


def _value_in(value: Any) -> Any:
    if isinstance(value, list):
        return [_value_in(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(_value_in(item) for item in value["$tuple"])
    if "$pairs" in value:
        return {_value_in(key): _value_in(item) for key, item in value["$pairs"]}
    return {key: _value_in(item) for key, item in value.items()}


def late_rules_to_plain(rules: LateRules | None) -> dict[str, Any] | None:
    """The rules as they stand in ``class.json``."""
    if rules is None:
        return None
    return {**asdict(rules), "extensions": [asdict(one) for one in rules.extensions]}


def late_rules_from_plain(data: Mapping[str, Any] | None) -> LateRules | None:
    """The inverse of :func:`late_rules_to_plain`.

    Raises:
        LookupError, TypeError: it is damaged.
    """
    if data is None:
        return None
    listed = tuple(Extension(**one) for one in data["extensions"])
    return LateRules(**{**data, "extensions": listed})

"""Records from data: what fits their types is taken, and everything else is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.course.plain import from_plain, to_plain
from autograder.course.records import (
    Check,
    CheckResult,
    Exercise,
    Frame,
    HandIn,
    Lab,
    Limits,
    Message,
    Origin,
    Outcome,
    Student,
    Text,
)

WORDS = Text("words", "文字")
CHECK = Check("a", "lab9.x", "shape", 5, WORDS, needs=("b",))
RESULT = CheckResult(
    "a", Outcome.FAILED, Message("check.hidden"), frames=(Frame("f", 1, "g", "t"),)
)
HAND_IN = HandIn(
    "li", (RESULT,), digests={"a.py": "0"}, origin=Origin("x", (Student("li"),), late=True)
)
ODD = {
    "shape": (2, 3),
    "vast": 1 << 80,
    "far": float("inf"),
    "keys": {1: (), "$tuple": []},
    "list": [1.5, None],
}
EXERCISE = Exercise("e", "a.py", WORDS, WORDS, (CHECK,))
LAB = Lab("lab9_x", Path("lab9_x"), WORDS, ("a.py",), (), (), Limits(), (EXERCISE,))


@pytest.mark.parametrize(
    "record",
    [CHECK, RESULT, HAND_IN, LAB, Limits(cpu_seconds=3), replace(RESULT, message=None),
     Message("k", ODD)],
    ids=lambda record: type(record).__name__,
)  # fmt: skip
def test_what_is_written_is_read_again(record: Any) -> None:
    text = json.dumps(to_plain(record), allow_nan=False)
    assert from_plain(type(record), json.loads(text)) == record


def test_keys_of_another_release_are_left_out() -> None:
    assert from_plain(Frame, {**to_plain(RESULT.frames[0]), "column": 7}) == RESULT.frames[0]


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (CHECK, {"points": "5"}, "points"),
    (CHECK, {"points": True}, "points"),
    (CHECK, {"points": 1 << 63}, "64 bits"),
    (CHECK, {"points": 5.0}, "points"),
    (CHECK, {"fresh": 1}, "fresh"),
    (CHECK, {"needs": "b"}, "needs"),
    (CHECK, {"needs": [1]}, "needs"),
    (CHECK, {"title": "no"}, "title"),
    (CHECK, {"title": {"en": "x", "zh": None}}, "title.zh"),
    (Limits(), {"cpu_seconds": float("nan")}, "number"),
    (Limits(), {"cpu_seconds": float("inf")}, "number"),
    (RESULT, {"outcome": "lucky"}, "outcome"),
    (RESULT, {"message": "no"}, "message"),
    (RESULT, {"message": {"key": "k", "values": [1]}}, ""),
    (HAND_IN, {"results": [{**to_plain(RESULT), "case": 1}]}, "results[0].case"),
    (HAND_IN, {"digests": {"a.py": 0}}, "digests[...]"),
    (HAND_IN, {"digests": "ab"}, "digests"),
    (HAND_IN, {"origin": {"late": "no"}}, "origin.late"),
]


@pytest.mark.parametrize("record, change, place", WRONG)
def test_what_does_not_fit_is_named(record: Any, change: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=r"Expected|Invalid|missing|number") as caught:
        from_plain(type(record), {**to_plain(record), **change})
    assert place in str(caught.value)


def test_data_without_end_is_damaged() -> None:
    values: dict[str, Any] = {}
    values["k"] = [values]
    with pytest.raises(ValueError):
        from_plain(Message, {"key": "k", "values": values})

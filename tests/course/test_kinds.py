"""Fields of records: what their types say is taken, everything else is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autograder.course.labfile import verify
from autograder.course.records import (
    Check,
    CheckResult,
    Exercise,
    Frame,
    HandIn,
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


@pytest.mark.parametrize(
    "record",
    [CHECK, RESULT, HAND_IN, Limits(), Limits(cpu_seconds=3), replace(RESULT, message=None),
     Message("k", {"any": object()}), Exercise("e", "a.py", WORDS, WORDS, (CHECK,))],
    ids=lambda record: type(record).__name__,
)  # fmt: skip
def test_what_fits_is_taken(record: Any) -> None:
    verify(record)


WRONG: list[tuple[Any, str]] = [
    (replace(CHECK, points="5"), "Check.points is str, expected int"),
    (replace(CHECK, points=True), "Check.points is bool, expected int"),
    (replace(CHECK, points=1 << 63), "Check.points is int, expected int"),
    (replace(CHECK, points=5.0), "Check.points is float, expected int"),
    (replace(CHECK, fresh=1), "Check.fresh is int, expected bool"),
    (replace(CHECK, needs=["b"]), "Check.needs is list, expected tuple"),
    (replace(CHECK, needs=(1,)), "Check.needs is tuple, expected tuple"),
    (replace(CHECK, title={"en": "", "zh": ""}), "Check.title is dict, expected Text"),
    (replace(CHECK, title=Text("x", None)), "Text.zh is NoneType, expected str"),
    (Limits(cpu_seconds=float("nan")), "Limits.cpu_seconds is float, expected float"),
    (replace(RESULT, outcome="failed"), "CheckResult.outcome is str, expected Outcome"),
    (replace(RESULT, message="no"), "CheckResult.message is str, expected"),
    (replace(HAND_IN, results=(replace(RESULT, case=1),)), "CheckResult.case is int"),
    (replace(HAND_IN, digests={"a.py": 0}), "HandIn.digests is dict, expected"),
    (replace(HAND_IN, digests="ab"), "HandIn.digests is str, expected"),
    (Origin(late="no"), "Origin.late is str, expected bool"),
    (Message("k", {1: 2}), "Message.values is dict, expected"),  # type: ignore[dict-item]
]


@pytest.mark.parametrize("record, text", WRONG, ids=[text for _, text in WRONG])
def test_what_does_not_fit_is_named(record: Any, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        verify(record)
    assert str(caught.value).startswith(text)

"""Known mistakes in forms that no patch has: named, or told by the check, and never otherwise.

A form is a change of a right hand-in: of the solution, or of a style. It has to lose points, and
whatever is named in it has to be what it is listed under.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.styles import texts_of
from autograder.course.records import Certainty, HandIn
from tests.proof.subject import SUBJECTS

LAB2 = SUBJECTS["lab2"]
SLIPS = tomllib.loads(Path(__file__).with_name("forms.toml").read_text(encoding="utf-8"))["slip"]
FORMS = [(slip, number, form) for slip in SLIPS for number, form in enumerate(slip["form"])]
STYLES = {folder.name: folder for folder in LAB2.styles}
SURE = (Certainty.NAMED, Certainty.SHOWN)
CLEAR = ("check.weights_bias", "check.weights_lacking")  # sentences as good as a name


def hand_in(form: dict[str, Any]) -> dict[str, str]:
    """The host with the form's changes, each of which fits once."""
    host, file = form["host"], form.get("file", "attention.py")
    files = LAB2.sources if host == "solution" else texts_of(STYLES[host], LAB2.lab.files)
    text = files[file]
    for old, new in form["change"]:
        assert old in text and (text.count(old) == 1 or host == "solution"), old
        text = text.replace(old, new)
    return {**files, file: text}


def sure(record: HandIn) -> set[str]:
    """What is named for certain."""
    found = (finding for finding in record.findings if finding.certainty in SURE)
    return {one.id for finding in found for one in finding.misconceptions}


def told(record: HandIn) -> bool:
    """Whether the first check that fails says what is wrong as well as a name would."""
    first = next(result for result in record.results if result.check in LAB2.lost(record))
    return first.message is not None and first.message.key in CLEAR


@pytest.fixture(scope="module")
def graded() -> dict[str, HandIn]:
    return LAB2.named({f"{slip['id']}-{n}": hand_in(form) for slip, n, form in FORMS})


@pytest.mark.slow
def test_forms_of_known_mistakes_are_named_or_told(graded: dict[str, HandIn]) -> None:
    """At least four spellings of each of 25 slips, and at least 95 of 100 are recognised."""
    assert sum(len(slip["form"]) >= 4 for slip in SLIPS) >= 25
    names = {f"{slip['id']}-{n}": set(slip["names"]) for slip, n, _ in FORMS}
    assert [name for name, record in graded.items() if not LAB2.lost(record)] == []
    wrong = {name: sure(record) - names[name] for name, record in graded.items()}
    assert {name: found for name, found in wrong.items() if found} == {}
    known = [name for name, record in graded.items() if sure(record) & names[name] or told(record)]
    missed = graded.keys() - known
    assert len(known) >= 0.95 * len(graded), missed

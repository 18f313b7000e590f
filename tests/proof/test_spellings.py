"""Slips in spellings that no patch has, in labs 1 and 3 to 7: always rightly named.

The same for lab 2, whose forms are longer, is in ``test_behaviours.py``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.styles import texts_of
from autograder.checks.plan import collect
from autograder.course.records import Certainty, HandIn
from autograder.judge import diagnose
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources
from tests.proof.subject import SUBJECTS, Subject

SLIPS = tomllib.loads(Path(__file__).with_name("spellings.toml").read_text(encoding="utf-8"))[
    "slip"
]
LABS = sorted({slip["lab"] for slip in SLIPS})
SURE = (Certainty.NAMED, Certainty.SHOWN)


def host(subject: Subject, name: str) -> dict[str, str]:
    """The solution, or a right hand-in in another style."""
    if name == "solution":
        return dict(subject.sources)
    (folder,) = (style for style in subject.styles if style.name == name)
    return texts_of(folder, subject.lab.files)


def spelled(subject: Subject, form: dict[str, Any]) -> dict[str, str]:
    """The host with the changes of a form, each of which fits once in all files."""
    files = host(subject, form.get("host", "solution"))
    for old, new in form["change"]:
        (file,) = (name for name, text in files.items() if old in text)
        assert files[file].count(old) == 1, old
        files[file] = files[file].replace(old, new)
    return files


def sure(record: HandIn) -> set[str]:
    """What is named for certain."""
    found = (finding for finding in record.findings if finding.certainty in SURE)
    return {one.id for finding in found for one in finding.misconceptions}


def test_every_slip_has_at_least_four_spellings() -> None:
    assert len(SLIPS) >= 25
    assert [slip["id"] for slip in SLIPS if len(slip["forms"]) < 4] == []


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS)
def test_slips_are_named_in_every_spelling(lab: str) -> None:
    """All lose points, at least 95 of 100 are named, and none by a wrong name."""
    subject, names, hand_ins = SUBJECTS[lab], {}, {}
    for slip in SLIPS:
        for number, form in enumerate(slip["forms"] if slip["lab"] == lab else ()):
            name = f"{slip['id']}-{number}"
            names[name], hand_ins[name] = set(slip["names"]), spelled(subject, form)
    records = subject.named(hand_ins)
    assert [name for name, record in records.items() if not subject.lost(record)] == []
    found = {name: sure(record) for name, record in records.items()}
    assert {name: got - names[name] for name, got in found.items() if got - names[name]} == {}
    missed = [name for name, got in found.items() if not got]
    assert len(missed) <= 0.05 * len(found), missed


@pytest.mark.parametrize("lab", ["lab2", *LABS])
def test_no_experiment_shows_anything_in_what_is_right(lab: str) -> None:
    subject = SUBJECTS[lab]
    plan, shown = collect(subject.lab.folder), []
    for name in ("solution", *(style.name for style in subject.styles)):
        transport = LocalTransport(Sources(host(subject, name)))
        for exercise, experiments in plan.behaviours.items():
            for mistake, trial in experiments.items():
                if diagnose._asked(trial, transport)[1] is not False:
                    shown.append((name, exercise, mistake))
        transport.close()
    assert shown == []

"""Slips in spellings that no patch has: changes of right hand-ins, and what may be named there."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder.authoring.styles import texts_of
from autograder.course.records import Certainty, HandIn
from tests.proof.subject import Subject

SURE = (Certainty.NAMED, Certainty.SHOWN)
CLEAR = ("check.weights_bias", "check.weights_lacking")  # sentences as good as a name


@dataclass(frozen=True)
class Spelling:
    """One way to write a slip: a hand-in, and what may be named in it."""

    slip: str
    names: frozenset[str]
    files: Mapping[str, str]


@cache
def slips(lab: str) -> tuple[dict[str, Any], ...]:
    """The slips of a lab, by its short name; those of lab 2, whose forms are long, lie apart."""
    path = Path(__file__).with_name("forms.toml" if lab == "lab2" else "spellings.toml")
    found = tomllib.loads(path.read_text(encoding="utf-8"))["slip"]
    return tuple(slip for slip in found if slip.get("lab", "lab2") == lab)


def spellings(subject: Subject, turn: int = 0, every: int = 1) -> dict[str, Spelling]:
    """The spellings of all slips by name; of each slip one in ``every``, from ``turn`` on."""
    found = {}
    for slip in slips(subject.short):
        names = frozenset(slip["names"])
        for number, form in [*enumerate(forms_of(slip))][turn::every]:
            made = Spelling(slip["id"], names, _changed(subject, form))
            found[f"{slip['id']}-{number}"] = made
    return found


def forms_of(slip: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ways in which a slip is written; each file of slips has its own key for them."""
    found: list[dict[str, Any]] = slip.get("forms") or slip["form"]
    return found


def host(subject: Subject, name: str) -> dict[str, str]:
    """The solution, or a right hand-in in another style."""
    if name == "solution":
        return dict(subject.sources)
    (folder,) = (style for style in subject.styles if style.name == name)
    return texts_of(folder, subject.lab.files)


def _changed(subject: Subject, form: Mapping[str, Any]) -> dict[str, str]:
    """The host with the changes of a form, each of which fits once; in lab 2's, in one file."""
    name = form.get("host", "solution")
    files = host(subject, name)
    alone = form.get("file", "attention.py") if subject.short == "lab2" else None
    for old, new in form["change"]:
        (file,) = (one for one in files if old in files[one] and alone in (None, one))
        assert files[file].count(old) == 1 or (alone and name == "solution"), old
        files[file] = files[file].replace(old, new)
    return files


def sure(record: HandIn) -> set[str]:
    """What is named for certain."""
    found = (finding for finding in record.findings if finding.certainty in SURE)
    return {one.id for finding in found for one in finding.misconceptions}


def faults(
    subject: Subject, written: Mapping[str, Spelling], graded: Mapping[str, HandIn]
) -> Iterator[str]:
    """All lose points, at least 95 of 100 are named or told, and none by a wrong name."""
    missed = []
    for name, spelling in written.items():
        record, found = graded[name], sure(graded[name])
        lost = subject.lost(record)
        if not lost:
            yield f"{name}: not caught"
        elif found - spelling.names:
            yield f"{name}: named {sorted(found - spelling.names)}"
        elif not found and not _told(record, lost):
            missed.append(name)
    if len(missed) > 0.05 * len(written):
        yield f"fewer than 95 % of {len(written)} spellings are named: {', '.join(missed)}"


def _told(record: HandIn, lost: Collection[str]) -> bool:
    """Whether the first check that fails says what is wrong as well as a name would."""
    first = next(result for result in record.results if result.check in lost)
    return first.message is not None and first.message.key in CLEAR

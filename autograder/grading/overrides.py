"""Decisions of a person on single checks: ``overrides.toml``, read anew at every grading.

[[override]]
student = "alice"                 # id, email or display name
check = "test_rotary_values"      # as in class.json
points = 3                        # 0 to the points of the check
reason = "right, in a form that the check does not know"
by = "Dr. Li"
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.course.records import HandIn, Lab, Override
from autograder.intake.enrolment import Directory

NAME = "overrides.toml"
_KEYS = {"student": str, "check": str, "points": int, "reason": str, "by": str}


class OverrideError(ValueError):
    """The file cannot be used; the text names it, the entry, the key and the mend."""


def read(path: Path, lab: Lab) -> tuple[Override, ...]:
    """The overrides in ``path``; none where the file is absent.

    Raises:
        OverrideError: not TOML, an unknown or missing key, a check that the lab does not have,
            points beyond the check's, the same check of a student decided twice.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise OverrideError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OverrideError(f"{path}: not TOML in UTF-8 ({error})") from None
    entries = data.pop("override", [])
    if data or not isinstance(entries, list):
        named = ", ".join(data) or "override"
        raise OverrideError(f"{path}: {named}: expected [[override]] entries and nothing else")
    found: dict[tuple[str, str], Override] = {}
    for number, entry in enumerate(entries, 1):
        where = f"{path}: override {number}"
        override = _one(entry, lab, where)
        key = (override.student, override.check)
        if key in found:
            raise OverrideError(f"{where}: {key[1]} of {key[0]} is decided twice; keep one entry")
        found[key] = override
    return tuple(found.values())


def resolved(found: Sequence[Override], everybody: Directory, path: Path) -> tuple[Override, ...]:
    """The overrides under the ids of hand-ins; those of nobody stay as they are.

    Raises:
        IdentityError: a name fits several.
        OverrideError: two entries mean the same check of one person.
    """
    known: dict[tuple[str, str], Override] = {}
    for number, one in enumerate(found, 1):
        student = everybody.hand_in_of(one.student, str(path)) or one.student
        if (student, one.check) in known:
            text = f"{one.check} of {one.student} ({student}) is decided twice; keep one entry"
            raise OverrideError(f"{path}: override {number}: {text}")
        known[student, one.check] = replace(one, student=student)
    return tuple(known.values())


def _one(entry: Any, lab: Lab, where: str) -> Override:
    if not isinstance(entry, dict):
        raise OverrideError(f"{where}: expected a table with {', '.join(_KEYS)}")
    for key, kind in _KEYS.items():
        if key not in entry:
            raise OverrideError(f"{where}: {key} is missing; an override has {', '.join(_KEYS)}")
        if type(entry[key]) is not kind or (kind is str and not entry[key].strip()):
            wanted = "a whole number" if kind is int else "a text that is not empty"
            raise OverrideError(f"{where}: {key} is {entry[key]!r}, expected {wanted}")
    if unknown := set(entry) - set(_KEYS):
        raise OverrideError(f"{where}: {', '.join(sorted(unknown))}: not a key of an override")
    checks = {check.name: check for check in lab.checks}
    check = checks.get(entry["check"])
    if check is None:
        raise OverrideError(f"{where}: check {entry['check']!r} is not in {lab.name}/lab.toml")
    if not 0 <= entry["points"] <= check.points:
        raise OverrideError(
            f"{where}: points is {entry['points']}, expected 0 to {check.points} for {check.name}"
        )
    return Override(**entry)


def applied(hand_in: HandIn, overrides: Sequence[Override]) -> HandIn:
    """The record with the overrides of its student, and none that it had before."""
    own = [override for override in overrides if override.student == hand_in.student]
    return replace(hand_in, overrides=tuple(own))

"""Decisions of a person on hand-ins: ``overrides.toml``, and a CSV of the same name beside it.

Read anew at every grading. In the CSV, ``overrides.csv``, the keys are columns and an entry is a
line; lines that decide nothing are still to be filled in.

[[override]]
student = "alice"                 # id, email or display name
check = "test_rotary_values"      # or exercise = "lab2.rope"; neither: the whole hand-in
points = 2.5                      # in halves, 0 to the points of the check, exercise or lab
reason = "right, in a form that the check does not know"
by = "Dr. Li"

[[override]]
student = "bob"
penalty = 3                       # or bonus = 3: on top of the points, however many they are
looked_at = true                  # the marks of this hand-in need nobody any more
reason = "the function stands in a test of his own"
by = "Dr. Li"
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.course.records import HandIn, Lab, Override
from autograder.course.score import neat
from autograder.intake.people import Directory
from autograder.intake.roster import decoded

NAME = "overrides.toml"
TABLE = "overrides.csv"
_TEXTS = ("student", "reason", "by")
_PLACES = ("check", "exercise")
_NUMBERS = ("points", "bonus", "penalty")
KEYS = ("student", *_PLACES, *_NUMBERS, "looked_at", "reason", "by")
_YES = ("true", "yes", "x", "1", "是")
_NO = ("false", "no", "0", "否")
_MOST_BYTES = 4 << 20


class OverrideError(ValueError):
    """The file cannot be used; the text names it, the entry, the key and the mend."""


def given(
    file: Path | None, out: Path, lab: Lab, everybody: Directory | None = None
) -> tuple[Override, ...]:
    """The overrides in ``file``; without one those of the folder ``out``.

    Raises:
        OverrideError: there is no such file, or see :func:`read`.
    """
    if file is None:
        return read(out / NAME, lab, everybody)
    if not file.exists():
        raise OverrideError(f"{file}: there is no such file")
    return read(file, lab, everybody)


def read(path: Path, lab: Lab, everybody: Directory | None = None) -> tuple[Override, ...]:
    """The overrides in ``path`` and in a CSV of its name beside it; none where both are absent.

    With ``everybody`` they stand under the ids of hand-ins; those of nobody stay as they are.

    Raises:
        IdentityError: a name fits several.
        OverrideError: not TOML or CSV, an unknown or missing key, a check or exercise that the lab
            does not have, points that are not halves or too many, the same points decided twice.
    """
    found: list[Override] = []
    decided: dict[tuple[str, str], set[str]] = {}
    for where, entry in (*_toml(path), *_csv(path.with_suffix(".csv"))):
        override = _one(entry, lab, where)
        if everybody is not None:
            student = everybody.hand_in_of(override.student, where) or override.student
            override = replace(override, student=student)
        places = _checks(lab, override) if override.points is not None else set()
        for other, known in decided.items():
            if other[0] == override.student and places & known:
                raise OverrideError(
                    f"{where}: {override.check or override.exercise or 'the hand-in'} of "
                    f"{override.student} is decided twice; keep one entry"
                )
        if places:
            decided[(override.student, where)] = places
        found.append(override)
    return tuple(found)


def _checks(lab: Lab, override: Override) -> set[str]:
    """Names of the checks whose points an entry decides."""
    if override.check:
        return {override.check}
    among = (one for one in lab.exercises if override.exercise in ("", one.id))
    return {check.name for exercise in among for check in exercise.checks}


def _toml(path: Path) -> Iterator[tuple[str, Any]]:
    """The entries of a TOML file, each with its place."""
    if path.suffix == ".csv":
        return
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise OverrideError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OverrideError(f"{path}: not TOML in UTF-8 ({error})") from None
    entries = data.pop("override", [])
    if data or not isinstance(entries, list):
        named = ", ".join(data) or "override"
        raise OverrideError(f"{path}: {named}: expected [[override]] entries and nothing else")
    for number, entry in enumerate(entries, 1):
        yield f"{path}: override {number}", entry


def _csv(path: Path) -> Iterator[tuple[str, Any]]:
    """The lines of a CSV that decide something, as entries of a TOML file would be."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise OverrideError(f"{path}: {error.strerror}") from None
    text = decoded(data) if len(data) <= _MOST_BYTES else None
    if text is None:
        raise OverrideError(f"{path}: no text of at most 4 MiB; save it as CSV in UTF-8")
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = [str(name).strip() for name in rows.fieldnames or ()]
        if absent := {*_TEXTS, "points"} - set(columns):
            raise OverrideError(f"{path}: the column {sorted(absent)[0]} is missing")
        for row in rows:
            if any(more := row.get(None) or ()):  # a decimal comma, or one in a reason
                raise OverrideError(
                    f"{path}: line {rows.line_num}: {len(columns) + len(more)} cells below "
                    f"{len(columns)} columns; put what holds a comma into quotation marks"
                )
            pairs = zip(rows.fieldnames or (), columns, strict=True)
            cells = {key: _plain(row[name]) for name, key in pairs}
            looked = cells.get("looked_at", "").casefold() not in ("", *_NO)
            if looked or any(cells.get(name) for name in _NUMBERS):
                where = f"{path}: line {rows.line_num}"
                known = {key: text for key, text in cells.items() if key in KEYS and text}
                yield where, {key: _cell(key, text) for key, text in known.items()}
    except csv.Error as error:
        raise OverrideError(f"{path}: line {rows.line_num}: no CSV ({error})") from None


def _plain(cell: str | None) -> str:
    """A cell without what keeps a spreadsheet from taking it for a formula."""
    return (cell or "").strip().removeprefix("'")


def _cell(name: str, text: str) -> object:
    """Return what a cell means; what cannot be read stays text, and is named as such."""
    if name in _NUMBERS:
        try:
            return neat(float(text.replace(",", ".")))
        except (ValueError, OverflowError):
            return text
    if name == "looked_at" and text.casefold() in (*_YES, *_NO):
        return text.casefold() in _YES
    return text


def _one(entry: Any, lab: Lab, where: str) -> Override:
    if not isinstance(entry, dict):
        raise OverrideError(f"{where}: expected a table with {', '.join(KEYS)}")
    if unknown := set(entry) - set(KEYS):
        raise OverrideError(f"{where}: {', '.join(sorted(unknown))}: not a key of an override")
    for key in _TEXTS:
        if key not in entry:
            raise OverrideError(f"{where}: {key} is missing; an override needs {', '.join(_TEXTS)}")
    for key in (*_TEXTS, *_PLACES):
        if key in entry and (type(entry[key]) is not str or not entry[key].strip()):
            raise OverrideError(f"{where}: {key} is {entry[key]!r}, expected a text")
    seen = entry.get("looked_at", False)
    if type(seen) is not bool:
        raise OverrideError(f"{where}: looked_at is {seen!r}, expected true or false")
    most, named = _place(entry, lab, where)
    if seen and named != lab.name:
        raise OverrideError(f"{where}: looked_at is of the whole hand-in; leave out {named}")
    numbers = {key: _halves(entry, key, most, named, where) for key in _NUMBERS if key in entry}
    if not numbers and not seen:
        raise OverrideError(f"{where}: give points, bonus, penalty or looked_at = true")
    return Override(
        entry["student"],
        entry.get("check", ""),
        numbers.get("points"),
        entry["reason"],
        entry["by"],
        entry.get("exercise", ""),
        neat(numbers.get("bonus", 0) - numbers.get("penalty", 0)),
        seen,
    )


def _place(entry: dict[str, Any], lab: Lab, where: str) -> tuple[int, str]:
    """The points of what an entry is on, and what that is called."""
    if "check" in entry and "exercise" in entry:
        raise OverrideError(f"{where}: give check or exercise, or neither for the whole hand-in")
    if "check" in entry:
        known = {check.name: check.points for check in lab.checks}
    elif "exercise" in entry:
        known = {exercise.id: exercise.points for exercise in lab.exercises}
    else:
        return lab.points, lab.name
    kind = "check" if "check" in entry else "exercise"
    name = entry[kind]
    if name not in known:
        raise OverrideError(f"{where}: {kind} {name!r} is not in {lab.name}/lab.toml")
    return known[name], name


def _halves(entry: dict[str, Any], key: str, most: int, named: str, where: str) -> float:
    """A number of points; a bonus and a penalty may be as large as the whole."""
    value = entry[key]
    if type(value) not in (int, float):
        raise OverrideError(f"{where}: {key} is {value!r}, expected a number of points")
    if not 0 <= value <= most:
        raise OverrideError(f"{where}: {key} is {value}, expected 0 to {most} for {named}")
    if not float(2 * value).is_integer():
        raise OverrideError(f"{where}: {key} is {value}, expected whole or half points")
    return neat(value)


def applied(hand_in: HandIn, overrides: Sequence[Override]) -> HandIn:
    """The record with the overrides of its student, and none that it had before."""
    own = [override for override in overrides if override.student == hand_in.student]
    return replace(hand_in, overrides=tuple(own))

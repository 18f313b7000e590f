"""Extensions: ``extensions.csv``, whose they are, and how late a hand-in is by them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from autograder.course.labfile import LABS, LabError, find_lab
from autograder.course.late import Extension, LateRules, lateness
from autograder.course.records import HandIn, Student
from autograder.intake.roster import decoded, folded


def keys_of(students: Iterable[Student]) -> set[str]:
    """Return what a line's student is compared with: ids and emails, case and width aside."""
    return {folded(text) for one in students for text in (one.id, one.email) if text}


class Clock:
    """Tells how late hand-ins are by the rules of a lab.

    Args:
        rules: None where the course has none: then a record loses what it says of lateness.
    """

    def __init__(self, rules: LateRules | None) -> None:
        self._rules = rules
        self._own: dict[str, list[Extension]] = {}
        for one in rules.extensions if rules else ():
            self._own.setdefault(folded(one.student), []).append(one)

    def timed(self, hand_in: HandIn) -> HandIn:
        """The record with how late it is; for a group, the extensions of all its members."""
        if self._rules is None:
            return replace(hand_in, lateness=None)
        keys = keys_of((*hand_in.origin.students, Student(hand_in.student)))
        own = [one for key in sorted(keys) for one in self._own.get(key, ())]
        return replace(hand_in, lateness=lateness(self._rules, hand_in.origin.submitted_at, own))


class Strangers:
    """Students with an extension who neither handed in nor are missing: a slip of the pen.

    Args:
        extensions: of one lab.
        missing: who is on the roster and handed in nothing.
    """

    def __init__(self, extensions: Iterable[Extension], missing: Iterable[Student]) -> None:
        self._left = {folded(one.student): one.student for one in extensions}
        self._strike(missing)

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in: whoever made it is no stranger."""
        self._strike((*hand_in.origin.students, Student(hand_in.student)))

    def left(self) -> list[str]:
        """Those who are left, as the file of extensions calls them."""
        return sorted(self._left.values())

    def _strike(self, students: Iterable[Student]) -> None:
        for key in keys_of(students) if self._left else ():
            self._left.pop(key, None)


# ``extensions.csv``: more time for single students.
#
# student_id,lab,days,until,handed_in,reason
# 2024011,lab2,3,,,ill
# 2024012,,,2026-10-20T12:00,,travel for the university
# 2024013,lab2,,,2026-10-13T08:00:00+08:00,as his mail says

COLUMNS = ("student_id", "lab", "days", "until", "handed_in", "reason")
MAX_BYTES = 4 << 20
MAX_DAYS = 365


class ExtensionError(ValueError):
    """The file cannot be used; the text names file, line, column, what was expected, the mend."""


def read(
    path: Path, lab: str, due: str, offset: str = "", labs: Path = LABS
) -> tuple[Extension, ...]:
    """The extensions for a lab, in the order of the file.

    Args:
        path: a CSV in UTF-8 or GBK with a header line; ``lab``, ``days``, ``until`` and ``reason``
            may be absent. A line without a lab holds for every lab. It has either ``days`` (of 24
            hours, from the due time on) or ``until`` (ISO 8601), or, for one lab, ``handed_in``:
            when the hand-in came, where the course system does not tell.
        lab: name of the lab's folder.
        due: when it is due for everybody (ISO 8601 with an offset).
        offset: of times that name none; empty: that of ``due``.

    Raises:
        ExtensionError: unreadable, other columns, a line that says neither or both, or a student
            who has two lines for the same lab.
    """
    zone = datetime.fromisoformat(f"{due[:10]}T00:00{offset}" if offset else due).tzinfo
    found: dict[tuple[str, str], Extension] = {}
    for number, row in _rows(path):
        where = f"{path}: line {number}"
        student = row["student_id"]
        if not student:
            raise ExtensionError(f"{where}: student_id is empty; give an id or an email")
        wanted = _lab(row["lab"], labs, where)
        key = (folded(student), wanted)
        if key in found:
            raise ExtensionError(f"{where}: {student} has two lines for one lab; keep one")
        handed_in = _time(row, "handed_in", zone, where) if row["handed_in"] else ""
        if handed_in and not wanted:
            raise ExtensionError(f"{where}: handed_in is the time of one hand-in; fill lab, too")
        found[key] = Extension(student, _due(row, due, zone, where), row["reason"], handed_in)
    return tuple(one for (_, wanted), one in found.items() if wanted in ("", lab))


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The lines that are not blank, by column; columns that are absent are empty."""
    try:
        data = path.read_bytes()[: MAX_BYTES + 1]
        if len(data) > MAX_BYTES:
            raise ExtensionError(
                f"{path}: larger than {MAX_BYTES >> 20} MiB; is it the right file?"
            )
        text = decoded(data)
    except OSError as error:
        text = f"{error.strerror}; extensions in course.toml names a file beside it"
        raise ExtensionError(f"{path}: {text}") from None
    if text is None:
        raise ExtensionError(f"{path}: not text; save it as CSV in UTF-8")
    reader = csv.reader(io.StringIO(text, newline=""))
    lines = []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                lines.append((reader.line_num, [cell.strip() for cell in row]))
    except csv.Error as error:
        raise ExtensionError(f"{path}: line {reader.line_num}: no CSV ({error})") from None
    header = [cell.casefold() for cell in lines[0][1]] if lines else []
    if "student_id" not in header or set(header) - set(COLUMNS) or _twice(header):
        found = ",".join(header)[:100] or "nothing"
        raise ExtensionError(
            f"{path}: the first line is {found}; expected student_id and any of "
            f"{', '.join(COLUMNS[1:])}, between commas"
        )
    found_rows = []
    for number, cells in lines[1:]:
        if len(cells) > len(header):
            raise ExtensionError(
                f"{path}: line {number}: {len(cells)} cells below {len(header)} columns; "
                "put a reason with commas into quotation marks"
            )
        told = dict(zip(header, cells, strict=False))
        found_rows.append((number, {name: told.get(name, "") for name in COLUMNS}))
    return found_rows


def _twice(header: Sequence[str]) -> bool:
    return len(set(header)) < len(header)


def _lab(name: str, labs: Path, where: str) -> str:
    if not name:
        return ""
    try:
        return find_lab(name, labs).name
    except LabError as error:
        raise ExtensionError(f"{where}: lab: {error}") from None


def _due(row: Mapping[str, str], due: str, zone: tzinfo | None, where: str) -> str:
    days, until = row["days"], row["until"]
    if days and until:
        raise ExtensionError(f"{where}: has both days and until; fill one of them")
    if until:
        return _time(row, "until", zone, where)
    if not days:
        if not row["handed_in"]:
            raise ExtensionError(f"{where}: has none of days, until and handed_in; fill one")
        return due
    if not (days.isascii() and days.isdigit() and len(days) < 4 and int(days) <= MAX_DAYS):
        text = f"is {days!r}, expected a whole number from 0 to {MAX_DAYS}"
        raise ExtensionError(f"{where}: days {text}")
    return (datetime.fromisoformat(due) + timedelta(days=int(days))).isoformat()


def _time(row: Mapping[str, str], column: str, zone: tzinfo | None, where: str) -> str:
    """The time in a column, as ISO 8601; a date alone does not say whether its day counts."""
    try:
        time = datetime.fromisoformat(row[column])
    except ValueError:
        time = None
    if time is None or ":" not in row[column]:
        raise ExtensionError(
            f"{where}: {column} is {row[column]!r}, expected a date and time, as 2026-10-20T12:00 "
            "(as the course file's) or 2026-10-20T12:00:00+08:00"
        )
    return (time if time.utcoffset() is not None else time.replace(tzinfo=zone)).isoformat()

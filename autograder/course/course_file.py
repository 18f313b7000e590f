"""``course.toml``: when labs are due, and what a late hand-in costs.

[due]
lab2 = 2026-10-12T23:59:00+08:00   # with the offset from UTC

[late]
grace_minutes = 15
percent_per_day = 10               # of the points earned, per started day of 24 hours
max_days = 5                       # later ones count nothing; without it every day is taken
extensions = "extensions.csv"      # beside this file; see intake/extensions_csv.py
offset = "+08:00"                  # of times of handing in, and in extensions, that name none

[submit]                           # in the students' copy, too; may be all that stands there
name = "{id}_{name}_lab{lab}.zip"  # of what `make submit` writes
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from autograder.course.labfile import LABS, ROOT, LabError, Table, find_lab
from autograder.course.late import LateRules

_LATE = ("grace_minutes", "percent_per_day", "max_days", "extensions", "offset")
_OFFSET = re.compile(r"Z|[+-](?:0\d|1[0-4]):[0-5]\d")
_MOST = {"grace_minutes": 7 * 24 * 60, "percent_per_day": 100, "max_days": 365}


ZIP_NAME = "{id}_{name}_lab{lab}.zip"
_ZIP_NAME = re.compile(r"(?:[^/\\:*?\"<>|{}\s]|\{(?:id|name|lab)\})+\.zip")


class CourseError(ValueError):
    """The course file cannot be used; the text names file, key, what was expected, the mend."""


@dataclass(frozen=True)
class Course:
    """The content of the file: rules by the name of a lab's folder, and the path of extensions."""

    path: Path
    rules: dict[str, LateRules]
    extensions: Path | None = None

    def of(self, lab: str) -> LateRules:
        """The rules of a lab, by the name of its folder.

        Raises:
            CourseError: the file does not say when it is due.
        """
        if lab not in self.rules:
            short = lab.partition("_")[0]
            raise CourseError(
                f"{self.path}: [due]: {short} is missing; add {short} = 2026-10-12T23:59:00+08:00, "
                "its due time"
            )
        return self.rules[lab]


def read(path: Path, labs: Path = LABS) -> Course:
    """Read a course file.

    Raises:
        CourseError: unreadable, not TOML in UTF-8, an unknown key, a value of another kind or
            beyond its bounds, a lab that is not there or stands there twice.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CourseError(f"{path}: {error.strerror}; --course takes a course.toml") from None
    except (ValueError, RecursionError) as error:
        raise CourseError(f"{path}: not TOML in UTF-8 ({error})") from None
    top = Table(str(path), raw, ("due", "late", "submit"), CourseError)
    _submit(top, path)
    late = Table(f"{path}: [late]", top.value("late", dict, {}), _LATE, CourseError)
    shared = LateRules(
        "",
        grace_minutes=_number(late, "grace_minutes", 0) or 0,
        percent_per_day=_number(late, "percent_per_day", 0) or 0,
        max_days=_number(late, "max_days", None),
        offset=late.string("offset", default=""),
    )
    if shared.offset and not _OFFSET.fullmatch(shared.offset):
        raise late.error("offset", f'is {shared.offset!r}, expected an offset as "+08:00"')
    listed = late.string("extensions", default="")
    rules: dict[str, LateRules] = {}
    for name, due in top.value("due", dict).items():
        where = Table(f"{path}: [due]", {name: due}, (name,), CourseError)
        folder = _folder(name, labs, where)
        if folder in rules:
            raise where.error(name, f"{folder} stands there twice; keep one line")
        rules[folder] = replace(shared, due=_time(due, name, where))
    return Course(path, rules, path.parent / listed if listed else None)


def zip_pattern(path: Path = ROOT / "course.toml") -> str:
    """Say how a hand-in's zip is called, as the course file beside the labs says if there is one.

    Raises:
        CourseError: it cannot be read, or the name lacks the number or the lab.
    """
    if not path.is_file():
        return ZIP_NAME
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise CourseError(f"{path}: not TOML in UTF-8 ({error})") from None
    return _submit(Table(str(path), raw, ("due", "late", "submit"), CourseError), path)


def _submit(top: Table, path: Path) -> str:
    table = Table(f"{path}: [submit]", top.value("submit", dict, {}), ("name",), CourseError)
    name = table.string("name", default=ZIP_NAME)
    if not _ZIP_NAME.fullmatch(name) or "{id}" not in name or "{lab}" not in name:
        raise table.error(
            "name", f'is {name!r}, expected a name with {{id}} and {{lab}}, as "{ZIP_NAME}"'
        )
    return name


def _number(table: Table, key: str, default: int | None) -> int | None:
    kinds = (int,) if default is not None else (int, type(None))
    value: int | None = table.value(key, kinds, default)
    if value is not None and not 0 <= value <= _MOST[key]:
        raise table.error(key, f"is {value}, expected a whole number from 0 to {_MOST[key]}")
    return value


def _folder(name: str, labs: Path, table: Table) -> str:
    try:
        return find_lab(name, labs).name
    except LabError as error:
        raise table.error(name, str(error)) from None


def _time(value: object, name: str, table: Table) -> str:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        text = "expected a date and time with its offset, as 2026-10-12T23:59:00+08:00 (no quotes)"
        raise table.error(name, f"is {value}; {text}")
    if not 2000 <= value.year <= 2999:
        raise table.error(name, f"is {value}; expected a year from 2000 to 2999")
    return value.isoformat()

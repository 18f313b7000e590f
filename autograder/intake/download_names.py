"""What course systems put into the names of folders and files that they let one download.

Canvas (lib/content_zipper.rb): ``name[_LATE]_user_attachment_file``, anonymous
``[LATE_]anon_id_attachment_file``, entered text ``name[_LATE]_user_text.html`` and ``_link.html``.
Moodle (mod/assign/classes/downloader.php): ``Full name_participant_assignsubmission_plugin``, as
a folder (before 4.1 with ``_`` at its end) or in front of each file. nbgrader's exchange:
``student+assignment+time[+random]``. Chinese classes: ``学号_姓名_…`` in either order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autograder.course.records import Student
from autograder.intake.timestamps import iso

MAX_CHARACTERS = 255  # longer names can only be an archive's; no course system makes them
# The names that nbgrader's zipcollect has, and `attempt`.
GROUPS = ("student_id", "file_id", "first_name", "last_name", "email", "timestamp", "attempt")

_CANVAS = re.compile(
    r"(?:(?P<name>[^/\\]*?)(?:_(?P<late>LATE))?_(?P<user>\d+)"
    r"|(?:(?P<anonymous_late>LATE)_)?anon_(?P<anonymous>[A-Za-z0-9]+))"
    r"_(?:(?P<attachment>\d+)_(?P<file>.+)|(?P<entered>text|link)\.html)",
    re.DOTALL,
)
_MOODLE = re.compile(
    r"(?P<name>.+?)(?:_(?P<participant>\d+))?_assignsubmission_(?P<plugin>[a-z]+)"
    r"(?:_(?P<file>.+)?)?",
    re.DOTALL,
)
_NBGRADER = re.compile(
    r"(?P<student>[^+]+)\+(?P<assignment>[^+]+)\+"
    r"(?P<time>\d{4}-\d\d-\d\d[ _]\d\d:\d\d:\d\d(?:\.\d+)? ?\w*)(?:\+.*)?"
)
_NUMBER = r"(?:[A-Za-z]{1,4}\d{4,20}|\d{2,20})[A-Za-z]?"
# Words that begin names of folders, and are nobody's name.
_PERSON = r"(?!实验|作业|课程|报告|提交|大作业|第)[\u3400-\u9fff][\u3400-\u9fff·•]{1,11}"
_BETWEEN = r"[ _\-+.＿－—]*"
_CHINESE = re.compile(
    rf"(?:(?P<id>{_NUMBER}){_BETWEEN}(?P<name>{_PERSON})"
    rf"|(?P<name2>{_PERSON}){_BETWEEN}(?P<id2>{_NUMBER}))"
    r"(?:[ _\-+＿－—(（]+(?P<file>.*))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Download:
    """What a name tells. ``person`` is the id of a hand-in; ``file`` what a loose file was.

    ``group`` is equal for loose files that are one hand-in. ``newer`` orders files of one name.
    ``entered`` marks text that was typed into the course system instead of a file.
    """

    person: str
    group: tuple[str, ...]
    student: Student
    file: str = ""
    submitted_at: str = ""
    late: bool | None = None
    attempt: int = 0  # 0: the name does not tell
    newer: int = 0
    entered: bool = False


def parse(name: str) -> Download | None:
    """What ``name`` tells by the rules of the course systems above, or None."""
    if len(name) > MAX_CHARACTERS:
        return None
    return _canvas(name) or _moodle(name) or _nbgrader(name) or _chinese(name)


def by_pattern(pattern: re.Pattern[str], name: str) -> Download | None:
    """What ``name`` tells by the instructor's own pattern, or None if it does not match."""
    match = pattern.search(name[:MAX_CHARACTERS])
    if match is None or not match["student_id"]:
        return None
    told: Mapping[str, str] = {key: text or "" for key, text in match.groupdict().items()}
    who = " ".join(part for key in ("first_name", "last_name") if (part := told.get(key, "")))
    stamp, attempt = told.get("timestamp", ""), told.get("attempt", "")
    student = Student(told["student_id"], who, told.get("email", ""))
    return Download(
        person=student.id,
        group=("pattern", student.id, stamp, attempt),
        student=student,
        file=told.get("file_id", ""),
        submitted_at=iso(stamp),
        attempt=int(attempt) if attempt.isdecimal() else 0,
    )


def _canvas(name: str) -> Download | None:
    match = _CANVAS.fullmatch(name)
    if match is None or (match["name"] or "a").isdigit():  # a date is no name
        return None
    if "_assignsubmission_" in (match["name"] or ""):
        return None  # Moodle's, of a file that its student has called like one of Canvas
    user = match["user"] or match["anonymous"]
    who = match["name"] or ("" if match["user"] else "anon")
    return Download(
        person=f"{who}_{user}" if who else user,
        group=("canvas", user),
        student=Student(user, match["name"] or ""),
        file=match["file"] or f"{match['entered']}.html",
        late=bool(match["late"] or match["anonymous_late"]),
        newer=int((match["attachment"] or "0")[:30]),
        entered=bool(match["entered"]),
    )


def _moodle(name: str) -> Download | None:
    match = _MOODLE.fullmatch(name)
    if match is None:
        return None
    who, participant = match["name"], match["participant"] or ""
    return Download(
        person=f"{who}_{participant}" if participant else who,
        group=("moodle", who, participant),
        student=Student(participant or who, who),
        file=match["file"] or "",
        entered=match["plugin"] != "file",
    )


def _nbgrader(name: str) -> Download | None:
    match = _NBGRADER.fullmatch(name)
    if match is None:
        return None
    student, time = match["student"], match["time"]
    stamp = iso(time.replace("_", " "))
    return Download(student, ("nbgrader", student, time), Student(student), submitted_at=stamp)


def _chinese(name: str) -> Download | None:
    match = _CHINESE.fullmatch(name)
    if match is None:
        return None
    number, who = match["id"] or match["id2"], match["name"] or match["name2"]
    return Download(
        person=f"{number}_{who}",
        group=("chinese", number, who),
        student=Student(number, who),
        file=match["file"] or "",
    )

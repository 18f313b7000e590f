"""Names as students write them: made readable, made visible, compared by how they look."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from autograder.course.records import Student

MAX_SHOWN = 120

# Letters of other scripts that are drawn like a Latin one, after case folding.
# Source: the confusables of Unicode Technical Standard 39, those of Cyrillic, Greek, Armenian.
_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏвкмнтгпԛԝαοινρτυκχγөɑɡıոսհցօ",
    "aeopcyxijsdhlbkmhtrnqwaoivptukxyoagiouhgo",
)
_BOXES = re.compile("[\u2500-\u259f]")
_COPIED = re.compile(r"(?:\.py|\.pyw|\.ipynb|\.txt)+$")


def readable(name: str) -> str:
    """A name from a Chinese archive as it was meant, whatever an unpacker has made of its bytes.

    Bytes that are no UTF-8 are GBK as a rule. Lines and blocks in a name are GBK that was taken
    for code page 437: there, the first bytes of common Chinese characters draw boxes.
    """
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("gb18030", errors="replace")
    if _BOXES.search(name):
        try:
            return name.encode("cp437").decode("gb18030")
        except UnicodeError:
            pass
    return name


def shown(name: str) -> str:
    """A name for a message: what is invisible or turns the text is written as an escape."""
    if not name.isprintable():
        name = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in name[: 2 * MAX_SHOWN]
        )
    return name if len(name) <= MAX_SHOWN else name[: MAX_SHOWN - 1] + "…"


def some(names: list[str]) -> str:
    """Some names for a message."""
    return ", ".join(map(shown, names[:10])) + (", …" if len(names) > 10 else "")


def skeleton(name: str) -> str:
    """Equal for names that a reader takes for the same: width, case, script, invisible signs."""
    if name.isascii() and name.isprintable():
        return name.lower()
    name = name[: 4 * MAX_SHOWN]
    folded = unicodedata.normalize("NFKC", name).casefold()
    kept = (one for one in folded if unicodedata.category(one) not in ("Cf", "Cc", "Mn"))
    return "".join(kept).translate(_ALIKE)


def is_lookalike(name: str, file: str) -> bool:
    """Return whether ``name`` is drawn like ``file`` and yet spelt with other signs."""
    return not name.isascii() and skeleton(name) == file.lower()


def is_meant(name: str, file: str) -> bool:
    """Say whether a student may have meant ``file``: other case, a copy's number, a small slip."""
    import difflib  # only needed when something is wrong

    if len(name) > MAX_SHOWN:  # nobody means so much, and comparing would take long
        return False
    lowered = unicodedata.normalize("NFKC", name).lower()
    if lowered.startswith("test_"):
        return False
    if not re.search(r"\.(?:py|pyw|ipynb|txt)$", lowered):
        return False
    stem = file.rsplit(".", 1)[0].lower()
    bare = _COPIED.sub("", lowered)
    if re.search(rf"(?<![a-z]){re.escape(stem)}(?![a-z])", bare):
        return True
    return difflib.SequenceMatcher(None, bare, stem).ratio() >= 0.85


# From the names of folders and zips to student ids that are safe as file names, and unique.

MAX_ID_CHARACTERS = 80
MAX_BYTES = 200  # file systems allow 255 in UTF-8; some room for what is put beside it

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
# Names that grading itself writes or reads beside the students' folders.
_OURS = re.compile(r"secret|.*\.(?:csv|html|json|jsonl|lock|md|toml|xml)", re.IGNORECASE)


def safe_id(name: str) -> str:
    """Make ``name`` a student id: Unicode letters, digits, ``-``, ``_`` and ``.``, nothing else.

    It begins with a letter, a digit or ``_``, does not end with a dot, has at most 80
    characters and 200 UTF-8 bytes, and is neither a device name of Windows nor a file of ours.
    """
    kept = "".join(
        character if character.isalnum() or character in "-_." else "_"
        for character in unicodedata.normalize("NFC", name)
    )
    kept = _cut(kept, MAX_ID_CHARACTERS) or "_"
    if kept[0] in "-.":
        kept = "_" + kept[1:]
    if kept[-1] == ".":
        kept = kept[:-1] + "_"
    if _DEVICE.fullmatch(kept) or _OURS.fullmatch(kept):
        kept = "_" + _cut(kept, MAX_ID_CHARACTERS - 1)
    return kept


def unique_ids(names: Sequence[str]) -> list[str]:
    """A safe id per name, in the same order; ids differ even where case is ignored.

    The first of several equal ones keeps its id, the others get ``-2``, ``-3``, …; a name that
    clashes with nobody always keeps its own.
    """
    wanted = [safe_id(name) for name in names]
    taken: dict[str, int] = {}
    for place, student in enumerate(wanted):
        taken.setdefault(_folded(student), place)
    unique = []
    for place, student in enumerate(wanted):
        number = 1
        base = student
        while taken.setdefault(_folded(student), place) != place:
            number += 1
            suffix = f"-{number}"
            student = _cut(base, MAX_ID_CHARACTERS - len(suffix), len(suffix)) + suffix
        unique.append(student)
    return unique


def _folded(student: str) -> str:
    """Equal for ids that a file system or a reader may take for the same."""
    return unicodedata.normalize("NFKC", student).casefold()


def _cut(text: str, characters: int, reserve: int = 0) -> str:
    """The beginning of ``text`` within both limits, ``reserve`` bytes left free."""
    text = text[:characters]
    while len(text.encode("utf-8", "replace")) > MAX_BYTES - reserve:
        text = text[:-1]
    return text


# Times as course systems write them, brought to ISO 8601; what cannot be read stays empty.

# 2025-03-01 12:30:05.123456 UTC · 2025-03-01T12:30:05Z · 2025-03-01-12-30-05 · 20250301123005
_TIME = re.compile(
    r"(?P<year>\d{4})(?P<dash>[-/._]?)(?P<month>\d{2})(?P=dash)(?P<day>\d{2})"
    r"(?:[T _\-.]?(?P<hour>\d{2})[:\-_.h]?(?P<minute>\d{2})(?:[:\-_.m]?(?P<second>\d{2}))?"
    r"(?:\.(?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
)


def iso(text: str) -> str:
    """``text`` as ISO 8601, with its zone where it names one; empty if it is no time."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return ""
    year, month, day = (int(match[name]) for name in ("year", "month", "day"))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    micro = int((match["fraction"] or "0")[:6].ljust(6, "0"))
    try:
        found = datetime(year, month, day, hour, minute, second, micro)
        zone = match["zone"]
        if zone in ("Z", "UTC", "GMT"):
            found = found.replace(tzinfo=UTC)
        elif zone:
            found = datetime.fromisoformat(f"{found.isoformat()}{zone[:3]}:{zone[-2:]}")
    except ValueError:
        return ""
    return found.isoformat()


def moment(text: str) -> datetime | None:
    """Return what :func:`iso` has written, or a date and time of another program, to compare."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


# What course systems put into the names of folders and files that they let one download.
#
# Canvas (lib/content_zipper.rb): ``name[_LATE]_user_attachment_file``, anonymous
# ``[LATE_]anon_id_attachment_file``, entered text ``name[_LATE]_user_text.html`` and
# ``_link.html``. Moodle (mod/assign/classes/downloader.php): ``Full
# name_participant_assignsubmission_plugin``, as a folder (before 4.1 with ``_`` at its end) or in
# front of each file. nbgrader's exchange: ``student+assignment+time[+random]``. Blackboard:
# ``assignment_user_attempt_time_file``, and a receipt, ``….txt``. Chinese classes: ``学号_姓名_…``
# in either order, maybe behind the class: ``计科2101_张三_学号``, or with the lab before or between
# them: ``实验2_学号_姓名``. By hand: ``name_date_time_file``.

MAX_NAME_CHARACTERS = 255  # longer names can only be an archive's; no course system makes them
# The names that nbgrader's zipcollect has, and `attempt`.
GROUPS = ("student_id", "file_id", "first_name", "last_name", "email", "timestamp", "attempt")

_CANVAS = re.compile(
    r"(?:(?P<name>[^/\\]*?)(?:_(?P<late>LATE))?_(?P<user>\d+)"
    r"|(?:(?P<anonymous_late>LATE)_)?anon_(?P<anonymous>[A-Za-z0-9]+))"
    r"_(?:(?P<attachment>\d+)_(?P<file>.+)|(?P<entered>text|link)\.html)",
    re.DOTALL,
)
# Words that stand before the number of a lab, and are nobody's name.
_TITLE = re.compile(
    r"(?:.*[ _-])?(?:lab|hw|homework|assignment|exercise|submission|实验|實驗|作业)[ _-]*\d*",
    re.IGNORECASE | re.DOTALL,
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
_BLACKBOARD = re.compile(
    # A short number before another belongs to the title: `Lab_2_2021001_attempt_…`.
    r"(?P<title>.+?)_(?P<user>(?!\d{1,3}_\d)[^_]+(?:_\d+)?)_attempt_(?P<time>\d{4}(?:-\d\d){5})"
    r"(?:_(?P<file>.+)|\.txt)",
    re.DOTALL,
)
_ATTEMPT = re.compile(r"attempt_\d{4}(?:-\d\d){5}")
_NUMBER = r"(?:[A-Za-z]{1,4}\d{4,20}|\d{2,20})[A-Za-z]?"
_HAN = r"\u3400-\u9fff\U00020000-\U0003ffff"  # rare characters of names lie beyond the first plane
# Words that begin names of folders, and are nobody's name.
_PERSON = rf"(?!实验|作业|课程|报告|提交|大作业|第)[{_HAN}][{_HAN}·•]{{1,11}}"
_BETWEEN = r"[ _\-+.＿－—]*"
_CHINESE = re.compile(
    rf"(?:(?P<id>{_NUMBER}){_BETWEEN}(?P<name>{_PERSON})"
    rf"|(?P<name2>{_PERSON}){_BETWEEN}(?P<id2>{_NUMBER}))"
    r"(?:[ _\-+＿－—(（]+(?P<file>.*))?",
    re.DOTALL,
)

# The lab, where it stands by itself.
_LAB = re.compile(
    r"(?:^|(?<=[ _\-+.＿－—]))[【\[(（]?(?:第[一二三四五六七八九十\d]{1,3}次)?"
    r"(?:lab|hw|homework|assignment|实验|實驗|大?作业)(?:报告|代码)?"
    r"[ _-]?[一二三四五六七八九十\d]{0,3}"
    r"(?:[】\])）]|(?=[ _\-+.＿－—]|$))",
    re.IGNORECASE,
)

CLASS_DIGITS = 6  # the number of a class has at most so many, most numbers of students more
_WORD = re.compile(rf"(?<![{_HAN}])(?=[{_HAN}])|(?<![A-Za-z\d])(?=[A-Za-z\d])")
_NAMED = re.compile(
    rf"(?P<name>{_PERSON})(?![{_HAN}])(?:[ _\-+＿－—(（]+(?P<file>.*))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Download:
    """Parts of a name. ``person`` is the id of a hand-in; ``file`` what a loose file was.

    ``rest`` is what else the name of a folder or an archive holds. ``group`` is equal for loose
    files that are one hand-in. ``newer`` orders files of one name. ``entered`` marks text
    that was typed into the course system instead of a file. ``instead`` is what the name tells if
    its number is that of a class. ``partners`` handed in together with ``student``.
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
    instead: Download | None = None
    partners: tuple[Student, ...] = ()
    rest: str = ""


def parse(name: str) -> Download | None:
    """Return what ``name`` tells by the rules of the course systems above, or None."""
    if len(name) > MAX_NAME_CHARACTERS:
        return None
    ways = (_canvas, _moodle, _nbgrader, _blackboard, _chinese, _titled)
    return next((told for way in ways if (told := way(name)) is not None), None)


def by_pattern(pattern: re.Pattern[str], name: str) -> Download | None:
    """Return what ``name`` tells by the instructor's own pattern, or None if it does not match."""
    match = pattern.search(name[:MAX_NAME_CHARACTERS])
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
    name = match["name"] or ""
    number, attachment, file = match["user"] or "", match["attachment"] or "", match["file"] or ""
    if "_assignsubmission_" in name or "_attempt_" in name or _ATTEMPT.match(file):
        return None  # another system's, of a file that its student has called like one of Canvas
    if _TITLE.fullmatch(name) or (
        len(number) <= 4 and len(attachment) >= CLASS_DIGITS and re.match(_PERSON, file)
    ):
        return None  # lab_2_2021001_…, 计科_2101_2021001_张三
    if len(number) == 8 and (stamp := iso(number + attachment)):
        group = ("dated", name, stamp)
        return Download(name, group, Student(name, name), file, submitted_at=stamp)
    user = match["user"] or match["anonymous"]
    who = match["name"] or ("" if match["user"] else "anon")
    return Download(
        person=f"{who}_{user}" if who else user,
        group=("canvas", user, who),
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


def _blackboard(name: str) -> Download | None:
    match = _BLACKBOARD.fullmatch(name)
    if match is None:
        return None
    user, stamp, file = match["user"], iso(match["time"]), match["file"]
    group = ("blackboard", user, stamp)
    return Download(
        user, group, Student(user), file or name, submitted_at=stamp, entered=file is None
    )


def _chinese(name: str) -> Download | None:
    first = _CHINESE.fullmatch(name)
    if first is None:
        return None

    def digits(match: re.Match[str]) -> int:
        return sum(map(str.isdigit, match["id"] or match["id2"]))

    told = _numbered(first)
    if digits(first) > CLASS_DIGITS:
        return told
    behind = [
        match for at in _WORD.finditer(name) if (match := _CHINESE.fullmatch(name, at.start()))
    ]
    long = [one for one in behind if digits(one) > CLASS_DIGITS and not iso(_person(one).id)]
    best = long[0] if long else max(behind, key=digits)  # the first of equals, as `first` is
    if digits(best) > digits(first) and not iso(_person(best).id):
        return _numbered(best)
    end = first.end("id2")
    starts = (at.start() for at in _WORD.finditer(name, end)) if first["id2"] else iter(())
    match = next((match for at in starts if (match := _NAMED.match(name, at))), None)
    if match is None:
        return told
    who = match["name"]
    person = f"{name[: match.start()].rstrip(' _-+＿－—(（')}_{who}"
    student = Student(person, who)
    file = match["file"] or ("" if match.end() == len(name) else name)
    return replace(told, instead=Download(person, ("chinese", person, who), student, file))


def _titled(name: str) -> Download | None:
    """Without the lab: only a number of many digits, which is no date, is surely a student's."""
    rest = _LAB.sub("", name, count=1).strip(" _-+.＿－—")
    told = _chinese(rest) if rest != name else None
    number = told.student.id if told else ""
    return told if sum(map(str.isdigit, number)) > CLASS_DIGITS and not iso(number) else None


def _numbered(match: re.Match[str]) -> Download:
    first, file = _person(match), match["file"] or ""
    people = [first]
    while more := _CHINESE.fullmatch(file):
        other = _person(more)
        # Another number of the same length, and no date, is another student's.
        if len(other.id) != len(first.id) or len(other.id) <= CLASS_DIGITS or iso(other.id):
            break
        file = more["file"] or ""
        people += [other] if all(other.id != one.id for one in people) else []
    return Download(
        person="_".join(f"{one.id}_{one.name}" for one in people),
        group=("chinese", *(text for one in people for text in (one.id, one.name))),
        student=first,
        file=file,
        partners=tuple(people[1:]),
    )


def _person(match: re.Match[str]) -> Student:
    return Student(match["id"] or match["id2"], match["name"] or match["name2"])

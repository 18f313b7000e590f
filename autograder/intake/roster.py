"""The roster of a class, read from a CSV; who of it handed in nothing."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from autograder.course.messages import both
from autograder.course.records import Message, Student
from autograder.intake.attempts import Attributed

# A roster as course systems export it: a CSV whose columns go by many names.

MAX_BYTES = 16 << 20

# Headers without case, spaces and signs; of several, the first that is there and filled counts.
_HEADERS = {
    "id": (
        *(
            "studentid",
            "学号",
            "学生学号",
            "学生编号",
            "sid",
            "id",
            "identifier",
            "rosteridentifier",
        ),
        *("idnumber", "studentnumber", "uid", "userid", "username", "sisuserid", "sisloginid"),
        *("loginid", "githubusername", "学工号", "用户名", "账号", "标识符", "識別碼"),
    ),
    "name": ("name", "fullname", "studentname", "student", "姓名", "学生姓名", "名字", "全名"),
    "first": ("firstname", "givenname", "名"),
    "last": ("lastname", "surname", "familyname", "姓", "姓氏"),
    "email": ("email", "emailaddress", "mail", "邮箱", "电子邮箱", "电子邮件", "邮件地址", "邮件"),
    "role": ("role", "角色"),
}
_STAFF = ("instructor", "teacher", "ta", "teachingassistant", "reader", "grader", "教师", "助教")
_TEST_STUDENT = ("studenttest", "teststudent", "测试学生", "學生測試", "測試學生")
_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s.]{1,255}\.[^@\s]{1,255}")
# What a Moodle's worksheet puts in front of its number of a student.
_PARTICIPANT = re.compile(r"^(?:Participant|参与人|参与者|参加者|參與者)\s*(?=\d)")
_HAN = re.compile("[\u3400-\u9fff]")


class RosterError(ValueError):
    """A roster that cannot be read; names the file, the line, what was expected, how to mend."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        self.reason = Message(f"intake.{key}", {"path": str(path), **values})
        super().__init__(both(self.reason))


def read(path: Path) -> tuple[Student, ...]:
    """The students of a CSV with a header line, in its order, each id once.

    UTF-8 (with or without a byte order mark), UTF-16 with one, or GBK; commas, semicolons or
    tabs. Takes grade books and rosters of Canvas, Moodle, Gradescope, nbgrader and GitHub
    Classroom, and the headers 学号, 姓名, 邮箱. Rows of staff are skipped; of a grade book of
    Canvas, so are those that are nobody's (points, posting, whatever else has no number) and that
    of the test student.

    Raises:
        RosterError: unreadable, no known column, no student, or a row with nothing to go by.
    """
    rows = _rows(path)
    if not rows:
        raise RosterError("roster_empty", path)
    columns = _columns(rows[0][1])
    if not {"id", "name", "email", "last"} & columns.keys():
        found = ", ".join(cell.strip() for cell in rows[0][1][:8])
        raise RosterError("roster_header", path, line=rows[0][0], found=found)
    canvas = _is_canvas(rows[0][1])
    students: dict[str, Student] = {}
    for line, row in rows[1:]:
        if _is_no_student(row, columns, canvas=canvas):
            continue
        student = _student(row, columns)
        if not (student.id or student.name or student.email):
            raise RosterError("roster_row", path, line=line, columns=", ".join(sorted(columns)))
        key = folded(student.id) or f"{folded(student.email)}\n{folded(student.name)}"
        students.setdefault(key, student)
    if not students:
        raise RosterError("roster_empty", path)
    return tuple(students.values())


def folded(text: str) -> str:
    """Without case, width and spaces."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, with their line numbers."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise RosterError("roster_unreadable", path, text=str(error.strerror)) from None
    text = decoded(data)
    if len(data) > MAX_BYTES or text is None:
        raise RosterError("roster_not_text", path)
    lines = text.lstrip("\ufeff").splitlines() or [""]
    header = next((line for line in lines if line.strip()), "")
    delimiter = max(",;\t", key=lambda sign: _known(header, sign))
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter)
    rows = []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append((reader.line_num, row))
    except csv.Error as error:
        values = {"line": reader.line_num, "text": str(error)}
        raise RosterError("roster_broken", path, **values) from None
    return rows


def decoded(data: bytes) -> str | None:
    """The text of a CSV in UTF-8, in UTF-16 with a byte order mark, or in GBK; else None."""
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if utf16 else ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return None


def _known(header: str, delimiter: str) -> tuple[int, int]:
    try:
        cells = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:  # reading the rows will say where
        return 0, 0
    return len(_columns(cells)), len(cells)


def _columns(header: Sequence[str]) -> dict[str, list[int]]:
    """The places of each known column, in the order of preference."""
    cells = [re.sub(r"[\W_]", "", folded(cell)) for cell in header]
    places = {
        what: [cells.index(name) for name in names if name in cells]
        for what, names in _HEADERS.items()
    }
    return {what: found for what, found in places.items() if found}


def _cell(row: Sequence[str], places: Iterable[int]) -> str:
    return next((row[at].strip() for at in places if at < len(row) and row[at].strip()), "")


def _is_canvas(header: Sequence[str]) -> bool:
    """Return whether this is the header of a grade book as Canvas exports it."""
    cells = [folded(cell) for cell in header]
    return cells[0] in ("student", "lastname") and {"id", "section"} <= set(cells)


def is_test_student(name: str) -> bool:
    """Return whether this is the student whom Canvas makes to try a course, in whatever order."""
    return re.sub(r"[\W_]", "", folded(name)) in _TEST_STUDENT


def _is_no_student(row: Sequence[str], columns: dict[str, list[int]], *, canvas: bool) -> bool:
    if row[0].strip().casefold().startswith("points possible"):
        return True  # Canvas, below the header
    if canvas:
        name = _cell(row, columns.get("name", [])) or "".join(
            _cell(row, columns.get(part, [])) for part in ("last", "first")
        )
        return not _cell(row, columns["id"]) or is_test_student(name)
    return folded(_cell(row, columns.get("role", []))) in _STAFF


def _student(row: Sequence[str], columns: dict[str, list[int]]) -> Student:
    told = {what: _cell(row, places) for what, places in columns.items()}
    first, last, name = told.get("first", ""), told.get("last", ""), told.get("name", "")
    if not (first or last) and name.count(",") == 1:
        last, first = (part.strip() for part in name.split(","))
    if not name:
        name = f"{last}{first}" if _HAN.search(last + first) else f"{first} {last}".strip()
    email = told.get("email", "")
    if not email:  # a login is an address at many universities
        email = next((cell.strip() for cell in row if _ADDRESS.fullmatch(cell.strip())), "")
    number = _PARTICIPANT.sub("", told.get("id", ""))
    return Student(number, name, email, first, last)


__all__ = ["RosterError", "missing", "read"]


def missing(roster: Iterable[Student], handed_in: Iterable[Attributed]) -> tuple[Student, ...]:
    """Return who of the roster handed in nothing, in its order.

    A student is looked for by id, else by email, else by name, without regard to case, width,
    spaces and signs, family name first or last. Takes entries, submissions or graded hand-ins;
    their ids count as ids and names, too. Of namesakes who can only be told by name, all are
    missing unless as many handed in.
    """
    present = _present(handed_in)
    left = list(roster)
    for keys in (ids_of, emails_of):
        known = {key for one in present for key in keys(one)}
        found = {key for one in left for key in keys(one)} & known
        left = [one for one in left if not found.intersection(keys(one))]
        # Who is found by one key must not be found again, as a namesake, by the next.
        present = [one for one in present if not found.intersection(keys(one))]
    wanted = Counter(key for one in left for key in names_of(one))
    there = Counter(key for one in present for key in names_of(one))
    return tuple(
        one for one in left if not any(there[key] >= wanted[key] > 0 for key in names_of(one))
    )


def _present(handed_in: Iterable[Attributed]) -> list[Student]:
    found = []
    for one in handed_in:
        if len(one.origin.students) == 1:
            student = one.origin.students[0]
            found.append(Student(student.id or one.student, student.name, student.email))
        else:
            found += one.origin.students or [Student(one.student)]
    return found


def ids_of(student: Student) -> set[str]:
    """Return what an id is compared by."""
    return {folded(student.id)} - {""}


def emails_of(student: Student) -> set[str]:
    """Addresses; an id may be one."""
    return {folded(one) for one in (student.email, student.id) if "@" in one}


def names_of(student: Student) -> set[str]:
    """The name in the orders in which it may be written; an id that is a name counts as one."""
    found: set[str] = set()
    for name in (student.name, student.id):
        last, comma, first = name.partition(",")
        words = [_letters(word) for word in re.split(r"[\s_]+", name.replace(",", " "))]
        words = [word for word in words if word]
        found.add("".join(words))
        found.add("".join(words[-1:] + words[:-1]))
        found.add("".join(words[1:] + words[:1]))
        if comma:
            found.add(_letters(first) + _letters(last))
    return {one for one in found if one and not one.isdecimal()}


def _letters(text: str) -> str:
    """Return what Canvas leaves of a name in a download: lower case, only word characters."""
    return re.sub(r"[\W_]", "", folded(text))

"""The roster of a class, read from a CSV; who of it handed in nothing."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autograder.course.messages import both
from autograder.course.records import Message, Student
from autograder.intake.attempts import AttributedHandIn

# A roster as course systems export it: a CSV whose columns go by many names.

MAX_BYTES = 16 << 20

# Headers without case, spaces and signs; of several, the first that is there and filled counts.
_HEADERS = {
    "id": (
        *(
            "studentid",
            "学号",
            "学号工号",
            "工号学号",
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
    "login": ("githubusername",),
}
_STAFF = ("instructor", "teacher", "ta", "teachingassistant", "reader", "grader", "教师", "助教")
_TEST_STUDENT = ("studenttest", "teststudent", "测试学生", "學生測試", "測試學生")
_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s.]{1,255}\.[^@\s]{1,255}")
# What a Moodle's worksheet puts in front of its number of a student.
_PARTICIPANT = re.compile(r"^(?:Participant|参与人|参与者|参加者|參與者)\s*(?=\d)")
_HAN = re.compile("[\u3400-\u9fff]")
# How spreadsheets write a number that is to stay as it is, or one that they have counted with.
_TYPED = re.compile(r"""'(.+)|="(.+)"|(\d+)\.0+""")
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d+", re.IGNORECASE)
# Moodle calls a student so where names are hidden ('participant' and 'hiddenuser' in the language
# packs of mod/assign), Canvas "anon".
HIDDEN = re.compile(r"(?:participant|参与者|参与人|参加者|參與者|anon)?", re.IGNORECASE)


class RosterError(ValueError):
    """A roster that cannot be read; names the file, the line, what was expected, how to mend."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        self.reason = Message(key if "." in key else f"intake.{key}", {"path": str(path), **values})
        super().__init__(both(self.reason))


class Roster(tuple[Student, ...]):
    """The students of a roster, and by what else some of them log in."""

    logins: Mapping[Student, str]


def read(path: Path) -> Roster:
    """The students of a CSV with a header line, in its order, each id once.

    UTF-8 (with or without a byte order mark), UTF-16 with one, GBK, or code page 1252; commas,
    semicolons or tabs. Takes grade books and rosters of Canvas, Moodle, Gradescope, nbgrader and
    GitHub Classroom, and the headers 学号, 姓名, 邮箱. Rows of staff are skipped; of a grade book
    of Canvas, so are those that are nobody's (points, posting, whatever else has no number) and
    that of the test student.

    Raises:
        RosterError: unreadable, no known column, no student, a row with nothing to go by, or one
            id for several people.
    """
    rows = _rows(path)
    if not rows:
        raise RosterError("roster_empty", path)
    columns = _columns(rows[0][1])
    if not {"id", "name", "email", "last"} & columns.keys():
        found = ", ".join(cell.strip() for cell in rows[0][1][:8])
        raise RosterError("roster_header", path, line=rows[0][0], found=found)
    canvas = _is_canvas(rows[0][1])
    students: dict[str, tuple[int, Student]] = {}
    logins: dict[Student, str] = {}
    for line, row in rows[1:]:
        if _is_no_student(row, columns, canvas=canvas):
            continue
        student = _student(row, columns)
        if not (student.id or student.name or student.email):
            raise RosterError("roster_row", path, line=line, columns=", ".join(sorted(columns)))
        key = folded(student.id) or f"{folded(student.email)}\n{folded(student.name)}"
        before, first = students.setdefault(key, (line, student))
        if _ROUNDED.fullmatch(student.id) or _differ(first, student):
            lines = ", ".join(map(str, sorted({before, line})))
            raise RosterError("grade.roster_rounded", path, lines=lines, given=student.id)
        logins.setdefault(first, _cell(row, columns.get("login", [])))
    if not students:
        raise RosterError("roster_empty", path)
    listed = Roster(student for _, student in students.values())
    listed.logins = logins
    return listed


def _differ(one: Student, other: Student) -> bool:
    """Return whether two lines of one id are of people of different names."""
    names = [names_of(Student("", student.name)) for student in (one, other)]
    return all(names) and not names[0] & names[1]


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
    """The text of a CSV in UTF-8, UTF-16 with a byte order mark, GBK, or cp1252; else None."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _text(data, "utf-16")
    text = _text(data, "utf-8-sig")
    if text is not None:
        return text
    chinese, western = _text(data, "gb18030"), _text(data, "cp1252")
    if western is not None and not any(one < " " and not one.isspace() for one in western):
        # The second byte of a Chinese character is seldom ASCII, what follows an accent mostly is.
        pairs = [one.encode("gb18030")[1] for one in chinese or "" if not one.isascii()]
        if sum(byte >= 0x80 for byte in pairs) * 2 < len(pairs) or chinese is None:
            return western
    return chinese


def _text(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
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
    typed = _TYPED.fullmatch(number)
    number = next(filter(None, typed.groups())) if typed else number
    return Student(number, name, email, first, last)


__all__ = ["RosterError", "missing", "read"]


def missing(
    roster: Iterable[Student], handed_in: Iterable[AttributedHandIn]
) -> tuple[Student, ...]:
    """Return who of the roster handed in nothing, in its order.

    A student is looked for by id (unless the names differ), else by email, else by name, without
    regard to case, width, spaces and signs, family name first or last. Takes entries, submissions
    or graded hand-ins; their ids count as ids and names, too. Of namesakes who can only be told by
    name, all are missing unless as many handed in.
    """
    present = _present(handed_in)
    left = list(roster)
    for keys in (ids_of, emails_of):
        known: dict[str, list[Student]] = {}
        for one in present:
            for key in keys(one):
                known.setdefault(key, []).append(one)
        pairs = [(one, other) for one in left for key in keys(one) for other in known.get(key, ())]
        if keys is ids_of:
            pairs = [(one, other) for one, other in pairs if agree([one.name], [other.name])]
        found, same = {one for one, _ in pairs}, {other for _, other in pairs}
        left = [one for one in left if one not in found]
        # Who is found by one key must not be found again, as a namesake, by the next.
        present = [one for one in present if one not in same]
    wanted = Counter(key for one in left for key in names_of(one))
    there = Counter(key for one in present for key in names_of(one))
    return tuple(
        one for one in left if not any(there[key] >= wanted[key] > 0 for key in names_of(one))
    )


def _present(handed_in: Iterable[AttributedHandIn]) -> list[Student]:
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


def agree(ours: Iterable[str], theirs: Iterable[str]) -> bool:
    """Return whether names may be one person's: they share a word, or cannot be compared.

    A name in Chinese characters and one in Latin letters cannot, nor can none at all. Systems know
    people by more or fewer names ("Li, Wei Ming"), without accents or spaces, so one word in common
    will do for an id that fits.
    """
    compared = [[name for name in names if not HIDDEN.fullmatch(name)] for names in (ours, theirs)]
    own, other = (
        {_plain(k) for n in names for k in names_of(Student("", n))} for names in compared
    )
    words, others = (words_of(names) for names in compared)
    if not own or not other or own & other or words & others:
        return True
    if _begin(words, other) or _begin(others, own):
        return True
    scripts = [{bool(_HAN.search(name)) for name in names} for names in (own, other)]
    return not scripts[0] & scripts[1]


def words_of(names: Iterable[str]) -> set[str]:
    """The words of names that are longer than an initial."""
    found = {word for name in names for word in re.split(r"[\W_]+", _plain(name.casefold()))}
    return {word for word in found if len(word) > 1}


def _begin(words: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether a name that is written in one begins or ends with one of the words."""
    telling = tuple(word for word in words if len(word) > 2 or _HAN.search(word))
    return any(name.startswith(telling) or name.endswith(telling) for name in names)


def _plain(text: str) -> str:
    """Without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))

"""Written reports: graded by ``solutions/report/report.toml``, prose left to a person.

Sections become exercises, numbers and texts checks, so that scores, tables, reports of students
and decisions of a person work for it as for any lab.
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import intake
from autograder.course.atomic import write_atomic
from autograder.course.labfile import SOLUTIONS, Table
from autograder.course.messages import render
from autograder.course.quantity import KINDS, Field, QuantityError, chosen, fields, parse
from autograder.course.records import (
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    HandIn,
    Isolation,
    Lab,
    Limits,
    Message,
    Outcome,
    Submission,
    Text,
    unread,
)
from autograder.course.score import decided_checks
from autograder.grading import output_folder, overrides
from autograder.grading.engine import digests
from autograder.grading.judge_process import versions
from autograder.grading.review_list import ReviewList, marked
from autograder.intake import attempts, roster
from autograder.intake.people import Directory, Enrolment
from autograder.intake.tree import Entry
from autograder.report import write
from autograder.report.escape import csv_cell
from autograder.report.table import ClassTable
from autograder.report.terminal import remark, say
from autograder.sandbox.fence import Fence, FenceError

PATH = SOLUTIONS / "report" / "report.toml"
NAME = "report"


class FormError(ValueError):
    """The form cannot be used; the text names file, section, key and mend."""


@dataclass(frozen=True)
class Answer:
    """A number that is asked for: ``values`` by what stands in the field ``by``, or by ``""``."""

    id: str
    kind: str
    values: Mapping[str, float]
    by: str = ""


@dataclass(frozen=True)
class Form:
    """The report as a lab, the answers to its numbers, and how a person reads the rest.

    ``tolerance`` is of the relative error. ``rubrics`` are by the name of a check.
    """

    lab: Lab
    answers: Mapping[str, Answer]
    rubrics: Mapping[str, Text]
    tolerance: float

    @property
    def file(self) -> str:
        """The file that is handed in."""
        return self.lab.files[0]


def load(path: Path = PATH) -> Form:
    """Read the form.

    Raises:
        FormError: it is absent, does not parse, or a key is missing, unknown or of another kind.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormError(f"{path}: {error}") from None
    top = Table(f"{path}: top level", raw, ("title", "file", "tolerance", "section"), FormError)
    file, tolerance = top.string("file"), top.value("tolerance", float)
    if not 0 < tolerance < 1:
        raise top.error("tolerance", "must lie between 0 and 1: 0.005 allows half a percent")
    answers: dict[str, Answer] = {}
    rubrics: dict[str, Text] = {}
    exercises = []
    for number, entry in enumerate(top.tables("section"), 1):
        where = f"{path}: section {entry.get('id') or number}"
        section = Table(where, entry, ("id", "title", "answer", "prose"), FormError)
        checks = [
            _answer(raw, where, section.string("id"), answers) for raw in entry.get("answer", ())
        ]
        checks += [
            _prose(raw, where, section.string("id"), rubrics) for raw in entry.get("prose", ())
        ]
        title, empty = section.text("title"), Text("", "")
        exercises.append(
            Exercise(f"{NAME}.{section.string('id')}", file, title, empty, tuple(checks))
        )
    names = [check.name for exercise in exercises for check in exercise.checks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FormError(f"{path}: {twice}: stands twice; every answer and text needs its own id")
    folder = path.parent
    lab = Lab(NAME, folder, top.text("title"), (file,), (), (), Limits(), tuple(exercises))
    return Form(lab, answers, rubrics, tolerance)


def _answer(raw: dict[str, Any], where: str, section: str, into: dict[str, Answer]) -> Check:
    known = ("id", "kind", "value", "values", "by", "points", "title")
    table = Table(f"{where}: answer {raw.get('id', '?')}", raw, known, FormError)
    name, kind = table.string("id"), table.string("kind", KINDS)
    if ("value" in raw) == ("values" in raw) or ("values" in raw) != ("by" in raw):
        raise table.error("value", "give either value, or values and the field that they go by")
    values = raw.get("values", {"": raw.get("value")})
    if not all(type(value) in (int, float) and value > 0 for value in values.values()):
        raise table.error("value", "must be a number above 0, in base units (bytes, things)")
    into[name] = Answer(name, kind, values, raw.get("by", ""))
    return _check(table, section, "accounting")


def _prose(raw: dict[str, Any], where: str, section: str, into: dict[str, Text]) -> Check:
    known = ("id", "points", "title", "rubric")
    table = Table(f"{where}: prose {raw.get('id', '?')}", raw, known, FormError)
    into[table.string("id")] = table.text("rubric")
    return _check(table, section, NAME)


def _check(table: Table, section: str, family: str) -> Check:
    points = table.value("points", int)
    if points < 0:
        raise table.error("points", "must be 0 or more")
    return Check(
        table.string("id"),
        f"{NAME}.{section}",
        family,
        points,
        table.text("title"),
        optional=points == 0,
    )


# Grades the numbers of a written report; its prose waits for a person.


def graded(form: Form, submission: Submission) -> HandIn:
    """The record of one report. A file that could not be read fails every number, with why."""
    problem = submission.problems.get("") or submission.problems.get(form.file)
    written = fields(submission.files.get(form.file, ""))
    results = []
    for check in form.lab.checks:
        if problem is not None:
            result = unread(problem)
        elif check.name in form.answers:
            result = _number(form.answers[check.name], written, form.tolerance)
        else:
            result = CheckResult("", Outcome.NOT_GRADED, Message("answer.prose"))
        results.append(CheckResult(check.name, result.outcome, result.message))
    return HandIn(
        submission.student,
        tuple(results),
        submission.notes,
        digests=digests(submission.files),
        origin=submission.origin,
    )


def _number(answer: Answer, written: Mapping[str, Field], tolerance: float) -> CheckResult:
    field = written.get(answer.id)
    if field is None:
        return _failed("absent", field=answer.id)
    if field.empty:
        return CheckResult("", Outcome.NOT_STARTED, Message("answer.empty"))
    key = ""
    if answer.by:
        by = written.get(answer.by)
        key = chosen(by.text if by else "", answer.values)
        if not key:
            return _failed("choice", field=answer.by, known=", ".join(answer.values))
    try:
        got = parse(field.text, answer.kind)
    except QuantityError as error:
        return _failed(error.why, written=field.text)
    want = answer.values[key]
    if abs(got - want) <= tolerance * want:
        return CheckResult("", Outcome.PASSED)
    return _failed("wrong", written=field.text, percent=100 * tolerance)


def _failed(key: str, **values: object) -> CheckResult:
    return CheckResult("", Outcome.FAILED, Message(f"answer.{key}", values))


# ``grade-report``: the numbers of written reports graded, the prose handed to a person.
#
# Writes what ``grade`` writes, and beside ``overrides.toml`` a rubric and the entries that are
# open, as TOML and as a CSV to be filled in.

RUBRIC = "rubric.md"
OPEN = "overrides.open.toml"
OPEN_TABLE = "overrides.open.csv"


def grade_reports(
    submissions: Path,
    out: Path,
    language: str,
    *,
    pattern: str | None = None,
    listed: Path | None = None,
) -> int:
    """Grade and write.

    Args:
        submissions: the class, as ``grade`` takes it; every report is ``my_report.md``.
        out: folder for scores and reports, apart from those of any lab.
        pattern: how a hand-in's name tells the student.
        listed: the roster, a CSV.

    Returns:
        0 when every point is decided, 1 when a person has to read something.

    Raises:
        ValueError: the form, the source, the roster or the overrides cannot be used.
    """
    form = load()
    lab = form.lab
    survey = intake.survey(submissions, lab, pattern)
    for message in survey.remarks:
        remark(language, message)
    people = roster.read(listed) if listed else ()
    enrolment = Enrolment(people)
    output_folder.apart(submissions, out)
    with output_folder.claimed(out):
        everyone = enrolment.identified(survey.entries) if people else survey.entries
        entries = attempts.last(attempts.numbered(everyone))
        # A class that was graded without this roster had the ids of the download.
        present = {entry.student for entry in (*entries, *survey.entries)}
        output_folder.same_class(out, lab.name, present)
        missing = roster.missing(people, everyone)
        everybody = Directory(everyone, missing, enrolment)
        decided = overrides.given(None, out, lab, everybody)
        with Fence() as fence:
            read = [_fenced(fence, form, entry) for entry in entries]
        hand_ins = [overrides.applied(enrolment.completed(marked(one)), decided) for one in read]
        # Nothing of a report is run, so nothing has to be isolated.
        record = ClassRecord(
            lab, Isolation("strong", (), "fork"), versions(), hand_ins, missing=missing
        )
        table, human = ClassTable(lab, language), ReviewList(lab, decided)
        also = (write.Reports(record, out, language), table, human)
        files = [path.name for path in write.class_files(record, out, also)]
        write_atomic(out / RUBRIC, rubric(form, language))
        open_ones = list(open_checks(form, hand_ins))
        write_atomic(out / OPEN, "".join(open_entries(open_ones, language)))
        write_atomic(out / OPEN_TABLE, open_table(open_ones, language))
        print(table.text(record.isolation, missing))
        say(language, "written", out=out, files=", ".join([*files, RUBRIC, OPEN, OPEN_TABLE]))
        return human.said(language, survey.remarks)


def _fenced(fence: Fence, form: Form, entry: Entry) -> HandIn:
    try:
        return fence(_graded, form, entry)
    except FenceError as error:
        return graded(form, intake.unread(entry, error))


def _graded(form: Form, entry: Entry) -> HandIn:
    return graded(form, intake.read(entry, form.lab))


def rubric(form: Form, language: str) -> str:
    """Return how each text is read, as Markdown."""
    lines = [f"# {_say('rubric_title', language)}", ""]
    lines += [_say("rubric_intro", language, file=overrides.NAME, table=overrides.TABLE), ""]
    for check in form.lab.checks:
        if check.name in form.rubrics:
            points = _say("points", language, points=check.points)
            lines += [f"## {check.title.in_(language)} (`{check.name}`, {points})", ""]
            lines += [form.rubrics[check.name].in_(language), ""]
    return "\n".join(lines)


def open_checks(form: Form, hand_ins: list[HandIn]) -> Iterator[tuple[str, Check]]:
    """Return what is still to be decided: a check of a student."""
    checks = {check.name: check for check in form.lab.checks if not check.optional}
    for hand_in in hand_ins:
        done = decided_checks(form.lab, hand_in)
        for result in hand_in.results:
            check = checks.get(result.check)
            if result.outcome is Outcome.NOT_GRADED and check and check.name not in done:
                yield hand_in.student, check


def open_entries(entries: list[tuple[str, Check]], language: str) -> Iterator[str]:
    """Return what is still to be decided, as entries to be copied into ``overrides.toml``."""
    for student, check in entries:
        yield (
            f"# {check.title.in_(language)}: 0 – {check.points}\n"
            f'[[override]]\nstudent = "{student}"\ncheck = "{check.name}"\n'
            'points = 0\nreason = ""\nby = ""\n\n'
        )


def open_table(entries: list[tuple[str, Check]], language: str) -> str:
    """The same as a CSV whose points are to be filled in: it counts as ``overrides.csv``."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("student", "check", "title", "most", "points", "reason", "by"))
    for student, check in entries:
        title = csv_cell(check.title.in_(language))
        writer.writerow((csv_cell(student), check.name, title, check.points, "", "", ""))
    return "\ufeff" + stream.getvalue()  # without the mark Excel takes UTF-8 for something else


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"answer.{name}", values), language)

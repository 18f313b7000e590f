"""``grade-report``: the numbers of written reports graded, the prose handed to a person.

Writes what ``grade`` writes, and beside ``overrides.toml`` a rubric and the entries that are open,
as TOML and as a CSV to be filled in.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from autograder import intake
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.records import Check, ClassRecord, HandIn, Isolation, Message, Outcome
from autograder.course.score import decided_checks
from autograder.grading import output_folder, overrides, written_report
from autograder.grading.judge_process import versions
from autograder.grading.review_list import ForAHuman, marked
from autograder.grading.written_report import Form, graded
from autograder.intake import attempts, roster
from autograder.intake.people import Enrolment
from autograder.intake.tree import Entry
from autograder.report import write
from autograder.report.escape import csv_cell
from autograder.report.table import ClassTable
from autograder.report.terminal import remark, say
from autograder.sandbox.fence import Fence, FenceError

RUBRIC = "rubric.md"
OPEN = "overrides.open.toml"
OPEN_TABLE = "overrides.open.csv"


def run(
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
    form = written_report.load()
    lab = form.lab
    survey = intake.survey(submissions, lab, pattern)
    for message in survey.remarks:
        remark(language, message)
    people = roster.read(listed) if listed else ()
    enrolment = Enrolment(people)
    output_folder.apart(submissions, out)
    with output_folder.claimed(out):
        entries = attempts.last(survey.entries)
        output_folder.same_class(out, lab.name, {entry.student for entry in entries})
        decided = overrides.given(None, out, lab)
        with Fence() as fence:
            read = [_fenced(fence, form, entry) for entry in entries]
        hand_ins = [overrides.applied(enrolment.completed(marked(one)), decided) for one in read]
        missing = roster.missing(people, survey.entries)
        # Nothing of a report is run, so nothing has to be isolated.
        record = ClassRecord(
            lab, Isolation("strong", (), "fork"), versions(), hand_ins, missing=missing
        )
        table, human = ClassTable(lab, language), ForAHuman(lab, decided)
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
    """How each text is read, as Markdown."""
    lines = [f"# {_say('rubric_title', language)}", ""]
    lines += [_say("rubric_intro", language, file=overrides.NAME, table=overrides.TABLE), ""]
    for check in form.lab.checks:
        if check.name in form.rubrics:
            points = _say("points", language, points=check.points)
            lines += [f"## {check.title.in_(language)} (`{check.name}`, {points})", ""]
            lines += [form.rubrics[check.name].in_(language), ""]
    return "\n".join(lines)


def open_checks(form: Form, hand_ins: list[HandIn]) -> Iterator[tuple[str, Check]]:
    """What is still to be decided: a check of a student."""
    checks = {check.name: check for check in form.lab.checks if not check.optional}
    for hand_in in hand_ins:
        done = decided_checks(form.lab, hand_in)
        for result in hand_in.results:
            check = checks.get(result.check)
            if result.outcome is Outcome.NOT_GRADED and check and check.name not in done:
                yield hand_in.student, check


def open_entries(entries: list[tuple[str, Check]], language: str) -> Iterator[str]:
    """What is still to be decided, as entries to be copied into ``overrides.toml``."""
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

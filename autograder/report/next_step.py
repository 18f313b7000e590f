"""The next step of a student, as commands that can be copied as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from autograder.course import suggestions
from autograder.course.messages import render
from autograder.course.records import (
    FEEDBACK,
    ClassRecord,
    Finding,
    HandIn,
    Lab,
    Message,
    Outcome,
)
from autograder.report.broken_files import broken_files
from autograder.report.remedies import OF_THE_FILE, is_no_mathematics, key_of, remedies
from autograder.report.view import (
    CheckView,
    ExerciseView,
    ScoreRow,
    StudentView,
    foremost,
    label,
    root_of,
    short,
)

# Set, perhaps empty, where make started us: what else its command line has to say again.
MAKE = "AUTOGRADER_MAKE"


def number_of(lab: Lab) -> str:
    """Return what ``LAB=`` calls it."""
    return lab.name.removeprefix("lab").split("_")[0]


def command_of(lab: str, verb: str, name: str = "") -> str:
    """A command for the lab number ``lab`` and, unless ``name`` is empty, one exercise."""
    settings = os.environ.get(MAKE)
    if settings is None:
        words = [
            suggestions.command(verb),
            f"--lab {lab}" if lab else "",
            f"-k {name}" if name else "",
            *suggestions.ASKED.get().repeated(verb, lab),
        ]
    else:
        words = ["make", verb, f"LAB={lab}" if lab else "", f"K={name}" if name else "", settings]
    return " ".join(word for word in words if word)


def submit_command(lab: str, number: str = "…", name: str = "…") -> str:
    """The command that packs the files of the lab number ``lab``; it needs a number and a name."""
    begin = command_of(lab, "submit")
    name = name if name == "…" else f'"{name}"'
    who = ("ID=", "NAME=") if begin.startswith("make ") else ("--id ", "--name ")
    return f"{begin} {who[0]}{number} {who[1]}{name}"


def next_lines(
    record: ClassRecord,
    rows: Sequence[ScoreRow],
    following: str,
    language: str,
    *,
    todos: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """The exercise to work on now, with the command that checks it.

    Args:
        rows: what was looked at.
        following: number of the lab after this one; behind the last one all are looked at.
        todos: where the TODO of an exercise stands, by its id.
    """
    lab = number_of(record.lab)
    ids = [exercise.id for exercise in record.lab.exercises]
    open_rows = [row for row in rows if row.missed]
    if open_rows:
        row = open_rows[0]
        message = row.reason
        todo = str(message.values["todo"]) if message and "todo" in message.values else ""
        check, _ = root_of(row, record)
        name = short(todo if todo in ids else check.exercise)
        key = key_of(row.missed[0][1])
        verb = "debug" if key == "breakpoint" else "test"
        lines = [_next(command_of(lab, verb, name), language)]
        if key in OF_THE_FILE:
            lines = [*_file_first(record, row, language), _next(command_of(lab, "test"), language)]
        place = todos.get(todo if todo in ids else row.exercise.id, "")
        if place and row.kind != "failed":
            lines.insert(0, _say("todo", language, place=place))
        if row.kind == "failed":
            finding = finding_of(record, row)
            stuck = "stuck_known" if finding and finding.misconceptions else "stuck"
            lines.append(_say(stuck, language, command=command_of(lab, "hint", name)))
        return lines
    done = nothing_left(record, rows, language)
    if len(rows) < len(ids):
        after = ids.index(rows[-1].exercise.id) + 1
        # Behind the last one everything is looked at together, and not the first one again.
        name = short(ids[after]) if after < len(ids) else ""
        return [done, _next(command_of(lab, "test", name), language)]
    lines = [done, _say("earned", language, title=record.lab.title.in_(language), count=len(ids))]
    # The lab itself first: what was built is seen at work before the next one begins.
    if record.lab.after:
        lines.append(_say("after", language, command=command_of(lab, record.lab.after)))
    lines.append(_say("hand_in", language, command=submit_command(lab)))
    return [*lines, _next(command_of(following, "test"), language)]


def finding_of(record: ClassRecord, row: ScoreRow) -> Finding | None:
    """Return what was recognised in an exercise; None where the lab's feedback keeps it back."""
    if record.lab.feedback == FEEDBACK[0]:
        return None
    of_it = (f for f in record.hand_ins[0].findings if row.exercise.id in f.exercises)
    return next(of_it, None)


def _file_first(record: ClassRecord, row: ScoreRow, language: str) -> list[str]:
    """The line to mend before anything else can run, with the points that hang on it."""
    result = row.missed[0][1]
    broken = broken_files(record.lab, record.hand_ins[0])
    points = next((one.points for one in broken if one.result == result), 0)
    place = f"{result.frames[-1].file}:{result.frames[-1].line}" if result.frames else ""
    return [_say("file_first", language, place=place, points=points)] if place and points else []


def nothing_left(record: ClassRecord, rows: Sequence[ScoreRow], language: str) -> str:
    """That all of these exercises pass, or all there are."""
    whole = len(rows) == len(record.lab.exercises)
    return _say("all_public" if whole else "some_public", language)


def _next(command: str, language: str) -> str:
    return _say("next", language, command=command)


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)


# What a student reads first: the one exercise to work on now, and with what.


@dataclass(frozen=True)
class FirstStep:
    """The next step; where nothing is left to do, ``said`` alone is not empty.

    ``title`` and ``hint`` are the course's words and may hold code in backticks; ``reason`` is
    fit for the medium, as the view's reasons are.
    """

    said: str
    title: str = ""
    reason: str = ""
    hint: str = ""
    command: str = ""


def first_step(lab: Lab, hand_in: HandIn, view: StudentView, language: str) -> FirstStep:
    """The file that could not be used, or the first exercise that the student can still mend."""
    number = number_of(lab)
    for broken in view.broken:
        if not broken.open and broken.points:
            return FirstStep(
                said=label("next_points", language, points=broken.points),
                title=label("next_file", language, files=broken.files),
                command=f"make test LAB={number}" if number.isdigit() else "",
            )
    for exercise in view.exercises:
        lost = [one for one in exercise.apart if _is_lost(one) and not one.optional]
        missed = [one for one in lost if one.outcome is not Outcome.SKIPPED]
        if missed:
            check = missed[foremost(missed)]
            points = sum(one.points for one in lost)
            name = short(exercise.id)
            return FirstStep(
                said=label("next_points", language, points=points) if points else "",
                title=exercise.title,
                reason=check.reason,
                hint=_hint(lab, hand_in, exercise, check.name, language),
                command=f"make test LAB={number} K={name}" if number.isdigit() else "",
            )
    if view.score.undecided:
        return FirstStep(label("next_human", language))
    return FirstStep(label("next_decided" if view.changed else "next_none", language))


def _is_lost(check: CheckView) -> bool:
    """Return whether the student can still earn its points."""
    return not check.settled and check.outcome not in (Outcome.PASSED, Outcome.NOT_GRADED)


def _hint(lab: Lab, hand_in: HandIn, exercise: ExerciseView, check: str, language: str) -> str:
    """That of the mistake that was recognised there, as far as feedback tells; of the failure's
    kind, where it is no mathematics; or the exercise's own.
    """
    if lab.feedback != FEEDBACK[0]:
        for finding in hand_in.findings:
            if exercise.id in finding.exercises and len(finding.misconceptions) == 1:
                return finding.misconceptions[0].hint.in_(language)
    result = next((one for one in hand_in.results if one.check == check), None)
    if result is not None and not result.hidden and is_no_mathematics(result):
        debug = command_of(number_of(lab), "debug", short(exercise.id))
        return remedies(result, language, debug)[0]
    return exercise.hint

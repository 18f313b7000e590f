"""What to do next, as commands that can be copied as they are."""

from __future__ import annotations

import os
from collections.abc import Sequence

from autograder.course import asked
from autograder.course.messages import render
from autograder.course.records import ClassRecord, Lab, Message
from autograder.report.rows import Row, short

# Set, perhaps empty, where make started us: what else its command line has to say again.
MAKE = "AUTOGRADER_MAKE"


def number_of(lab: Lab) -> str:
    """What ``LAB=`` calls it."""
    return lab.name.removeprefix("lab").split("_")[0]


def command_of(lab: str, verb: str, name: str = "") -> str:
    """A command for the lab number ``lab`` and, unless ``name`` is empty, one exercise."""
    settings = os.environ.get(MAKE)
    if settings is None:
        words = [
            asked.command(verb),
            f"--lab {lab}" if lab else "",
            f"-k {name}" if name else "",
            *asked.ASKED.get().repeated(verb, lab),
        ]
    else:
        words = ["make", verb, f"LAB={lab}" if lab else "", f"K={name}" if name else "", settings]
    return " ".join(word for word in words if word)


def next_lines(
    record: ClassRecord, rows: Sequence[Row], following: str, language: str
) -> list[str]:
    """The exercise to work on now, with the command that checks it.

    Args:
        rows: what was looked at.
        following: number of the lab after this one; behind the last one all are looked at.
    """
    lab = number_of(record.lab)
    ids = [exercise.id for exercise in record.lab.exercises]
    open_rows = [row for row in rows if row.missed]
    if open_rows:
        row = open_rows[0]
        message = row.reason
        todo = str(message.values["todo"]) if message and "todo" in message.values else ""
        name = short(todo) if todo in ids else row.name
        lines = [_next(command_of(lab, "test", name), language)]
        if row.kind == "failed":
            lines.append(_say("stuck", language, command=command_of(lab, "hint", name)))
        return lines
    done = nothing_left(record, rows, language)
    if len(rows) < len(ids):
        after = ids.index(rows[-1].exercise.id) + 1
        # Behind the last one everything is looked at together, and not the first one again.
        name = short(ids[after]) if after < len(ids) else ""
        return [done, _next(command_of(lab, "test", name), language)]
    return [done, _next(command_of(following, "test"), language)]


def nothing_left(record: ClassRecord, rows: Sequence[Row], language: str) -> str:
    """That all of these exercises pass, or all there are."""
    whole = len(rows) == len(record.lab.exercises)
    return _say("all_public" if whole else "some_public", language)


def _next(command: str, language: str) -> str:
    return _say("next", language, command=command)


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)

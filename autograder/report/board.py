"""The scoreboard of ``make test``: one line per exercise, the first failure, what to do next."""

from __future__ import annotations

import os
import shutil
import sys

from autograder.course.messages import render
from autograder.course.records import ClassRecord, Exercise, Message, Outcome
from autograder.report.escape import block, fitted, line
from autograder.report.view import label

_FANCY = {"passed": "✓", "failed": "✗", "not_started": "·", "other": "–"}
_PLAIN = {"passed": "ok", "failed": "XX", "not_started": "..", "other": "--"}
_COLOURS = {"passed": "32", "failed": "31", "not_started": "2", "other": "33"}


def scoreboard(record: ClassRecord, chosen: tuple[str, ...], language: str) -> tuple[str, bool]:
    """The text for the terminal, and whether every check that counts passed.

    Args:
        record: holds exactly one hand-in, the student's own.
        chosen: names of the checks that ran.
        language: ``en`` or ``zh``.
    """
    lab, hand_in = record.lab, record.hand_ins[0]
    results = {result.check: result for result in hand_in.results}
    lines: list[str] = []
    first: tuple[str, Exercise] | None = None
    earned = total = 0
    room = max(40, min(120, shutil.get_terminal_size().columns) - 28)
    for exercise in lab.exercises:
        checks = [check for check in exercise.checks if check.name in chosen]
        if not checks:
            continue
        outcomes = [(check, results[check.name].outcome) for check in checks]
        missed = [
            check.name
            for check, outcome in outcomes
            if outcome is not Outcome.PASSED and not check.optional
        ]
        points = sum(c.points for c, o in outcomes if o is Outcome.PASSED)
        worth = sum(c.points for c in checks)
        earned, total = earned + points, total + worth
        kind = _kind([results[name].outcome for name in missed])
        text = exercise.title.in_(language)
        if missed:
            first = first or (missed[0], exercise)
            message = results[missed[0]].message
            if kind != "not_started" and message is not None:
                text += ": " + line(render(message, language))
        number = f"{points:>3}/{worth:<3}"
        row = f"{_mark(kind)} {number} {exercise.id.split('.')[1]:<17} {fitted(text, room)}"
        lines.append(row.rstrip())
    if first is not None:
        lines += _detail(record, first[0], language)
    lines.append("")
    lines.append(_say("public_total", language, earned=earned, total=total))
    if first is not None:
        name = first[1].id.split(".")[1]
        number_of_lab = lab.name.removeprefix("lab").split("_")[0]
        lines.append(_say("next", language, command=f"make test LAB={number_of_lab} K={name}"))
        lines.append(_say("next_hint", language, hint=first[1].hint.in_(language)))
    else:
        lines.append(_say("all_public", language))
    lines += [render(mark, language) for mark in hand_in.marks]
    lines.append(_say("isolation_short", language, level=record.isolation.level))
    return "\n".join(lines), first is None


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)


def _kind(outcomes: list[Outcome]) -> str:
    if not outcomes:
        return "passed"
    if all(outcome is Outcome.NOT_STARTED for outcome in outcomes):
        return "not_started"
    bad = (Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)
    return "failed" if any(outcome in bad for outcome in outcomes) else "other"


def _mark(kind: str) -> str:
    """A glyph that the terminal can show, in colour where that is wanted."""
    try:
        "".join(_FANCY.values()).encode(sys.stdout.encoding or "ascii")
        glyph = _FANCY[kind]
    except UnicodeEncodeError:
        glyph = _PLAIN[kind]
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        return f"\x1b[{_COLOURS[kind]}m{glyph}\x1b[0m"
    return glyph


def _detail(record: ClassRecord, check: str, language: str) -> list[str]:
    """Sentence, traceback and prints of the first check that did not pass."""
    result = next(r for r in record.hand_ins[0].results if r.check == check)
    if result.outcome is Outcome.NOT_STARTED or result.message is None:
        return []
    title = next(c.title for c in record.lab.checks if c.name == check).in_(language)
    word = render(Message(f"outcome.{result.outcome.value}"), language)
    lines = ["", f"{word}: {title}", f"  {line(render(result.message, language))}"]
    for frame in result.frames[-3:]:
        lines.append(f"    {line(frame.file)}:{frame.line}  {line(frame.text)}")
    if result.prints:
        lines.append("  " + label("prints", language) + ":")
        lines += [f"    {text}" for text in block(result.prints).splitlines()[-8:]]
    return lines

"""The scoreboard of ``make test``: one line per exercise, the first failure, what to do next."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

from autograder.course.messages import render
from autograder.course.records import Check, CheckResult, ClassRecord, Exercise, Message, Outcome
from autograder.report.escape import block, fitted, line
from autograder.report.view import label

_FANCY = {"passed": "✓", "failed": "✗", "not_started": "·", "other": "–"}
_PLAIN = {"passed": "ok", "failed": "XX", "not_started": "..", "other": "--"}
_COLOURS = {"passed": "32", "failed": "31", "not_started": "2", "other": "33"}
_BAD = (Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)
# What a hint on the mathematics can help with; a syntax error needs none.
_WRONG_VALUES = ("mismatch", "mismatch_token", "moved", "stuck", "zero", "shape", "value")
_MORE = 4  # titles of further checks that fail


@dataclass(frozen=True)
class _Row:
    """One exercise as it stands."""

    exercise: Exercise
    checks: tuple[Check, ...]
    missed: tuple[tuple[Check, CheckResult], ...]

    @property
    def kind(self) -> str:
        outcomes = [result.outcome for _, result in self.missed]
        if not outcomes:
            return "passed"
        if all(outcome is Outcome.NOT_STARTED for outcome in outcomes):
            return "not_started"
        return "failed" if any(outcome in _BAD for outcome in outcomes) else "other"

    @property
    def points(self) -> tuple[int, int]:
        worth = sum(check.points for check in self.checks)
        return worth - sum(check.points for check, _ in self.missed), worth


def scoreboard(record: ClassRecord, chosen: tuple[str, ...], language: str) -> tuple[str, bool]:
    """The text for the terminal, and whether every check that counts passed.

    Args:
        record: holds exactly one hand-in, the student's own.
        chosen: names of the checks that ran.
        language: ``en`` or ``zh``.
    """
    results = {result.check: result for result in record.hand_ins[0].results}
    rows = []
    for exercise in record.lab.exercises:
        checks = tuple(check for check in exercise.checks if check.name in chosen)
        missed = tuple(
            (check, results[check.name])
            for check in checks
            if results[check.name].outcome is not Outcome.PASSED and not check.optional
        )
        if checks:
            rows.append(_Row(exercise, checks, missed))
    lines = [_line(row, language) for row in rows]
    open_rows = [row for row in rows if row.missed]
    if open_rows:
        lines.append(_say("legend", language, **_marks()))
        lines += _detail(open_rows[0], language)
    earned, total = (sum(row.points[part] for row in rows) for part in (0, 1))
    lines += ["", _say("public_total", language, earned=earned, total=total)]
    lines += _next(record, rows, open_rows, language)
    lines += [render(mark, language) for mark in record.hand_ins[0].marks]
    lines.append(_say("isolation_short", language, level=record.isolation.level))
    return "\n".join(lines), not open_rows


def _line(row: _Row, language: str) -> str:
    text = row.exercise.title.in_(language)
    if row.missed and row.kind != "not_started" and row.missed[0][1].message is not None:
        colon = "：" if language == "zh" else ": "
        text += colon + line(render(row.missed[0][1].message, language))
    room = max(40, min(120, shutil.get_terminal_size().columns) - 28)
    earned, worth = row.points
    number = f"{earned:>3}/{worth:<3}"
    name = row.exercise.id.split(".")[1]
    return f"{_coloured(row.kind)} {number} {name:<17} {fitted(text, room)}".rstrip()


def _detail(row: _Row, language: str) -> list[str]:
    """Sentence, traceback and prints of the first check that did not pass, titles of others."""
    check, result = row.missed[0]
    if result.outcome is Outcome.NOT_STARTED or result.message is None:
        return []
    word = render(Message(f"outcome.{result.outcome.value}"), language)
    title = line(check.title.in_(language))
    lines = ["", _say("check", language, outcome=word, title=title)]
    lines.append(f"  {line(render(result.message, language))}")
    for frame in result.frames[-3:]:
        lines.append(f"    {line(frame.file)}:{frame.line}  {line(frame.text)}")
    if result.prints:
        lines.append("  " + label("prints", language) + ":")
        lines += [f"    {text}" for text in block(result.prints).splitlines()[-8:]]
    others = [line(c.title.in_(language)) for c, r in row.missed[1:] if r.outcome in _BAD]
    if others:
        lines.append(_say("also", language, count=len(others)))
        lines += [f"    {title}" for title in others[:_MORE]]
    return lines


def _next(record: ClassRecord, rows: list[_Row], open_rows: list[_Row], language: str) -> list[str]:
    """What to do now: the exercise to work on, with the command that checks it."""
    number = record.lab.name.removeprefix("lab").split("_")[0]
    command = os.environ.get("AUTOGRADER_NEXT") or f"python -m autograder test --lab {number} -k "
    ids = [exercise.id for exercise in record.lab.exercises]
    if not open_rows:
        if len(rows) == len(ids):
            return [_say("all_public", language)]
        after = ids.index(rows[-1].exercise.id) + 1
        following = (ids[after:] or ids)[0].split(".")[1]
        return [_say("some_public", language), _say("next", language, command=command + following)]
    row = open_rows[0]
    message = row.missed[0][1].message
    key = message.key if message is not None else ""
    todo = str(message.values["todo"]) if message and key == "check.todo_elsewhere" else ""
    name = (todo if todo in ids else row.exercise.id).split(".")[1]
    lines = [_say("next", language, command=command + name)]
    if key.removeprefix("check.") in _WRONG_VALUES:
        lines.append(_say("next_hint", language, hint=row.exercise.hint.in_(language)))
    return lines


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)


def _marks() -> dict[str, str]:
    """Glyphs that the terminal can show."""
    try:
        "".join(_FANCY.values()).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _PLAIN
    return _FANCY


def _coloured(kind: str) -> str:
    glyph = _marks()[kind]
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if sys.stdout.isatty() and not plain:
        return f"\x1b[{_COLOURS[kind]}m{glyph}\x1b[0m"
    return glyph

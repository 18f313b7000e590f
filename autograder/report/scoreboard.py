"""The scoreboard of ``make test``: one row per exercise, the first failure, what to do next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from autograder.course.messages import cut, cut_text, render
from autograder.course.records import (
    Check,
    CheckResult,
    ClassRecord,
    Frame,
    Lab,
    Message,
    Outcome,
)
from autograder.course.score import score_of
from autograder.report.escape import block, fitted, folded, line, width
from autograder.report.next_step import command_of, finding_of, next_lines, number_of
from autograder.report.remedies import NO_MATHEMATICS, key_of
from autograder.report.terminal import coloured, columns, glyphs
from autograder.report.view import BAD, ScoreRow, label, root_of, rows_of, sentence, short

LINES = 28  # of the whole board, so that its first row stays in sight
_MORE = 4  # titles of further checks that fail
_LEAST = 2  # of them, whatever room there is
_PRINTS = 8
_FRAMES = 5
_NAME = 17  # columns of an exercise's name
_INDENT = 12 + _NAME  # of what stands beside it
_STEPS = ("diagnosis.agrees", "diagnosis.differs")  # or with more behind it


def scoreboard(
    record: ClassRecord,
    chosen: Sequence[str],
    language: str,
    *,
    hidden: int | None = None,
    following: str = "",
    todos: Mapping[str, str] = MappingProxyType({}),
    prints: bool = False,
) -> tuple[str, bool]:
    """The text for the terminal, and whether every check that counts passed.

    Args:
        record: holds exactly one hand-in, the student's own.
        chosen: names of the checks that were asked for; what they need ran, too.
        language: ``en`` or ``zh``.
        hidden: how many hidden cases the grader runs for the whole lab; None if not known.
        following: number of the next lab; empty for none.
        todos: where the TODO of an exercise stands, by its id.
        prints: show what checks that passed have printed, too.
    """
    rows = rows_of(record, chosen)
    open_rows = [row for row in rows if row.missed]
    if len(rows) < len(record.lab.exercises):
        hidden = None  # the number is that of all exercises
    after = next_lines(record, rows, following, language, todos=todos)
    end = ["", *_total(rows, hidden, language), *after]
    end += [render(mark, language) for mark in record.hand_ins[0].shown_marks]
    if level := record.isolation.level:  # none where nothing ran
        end.append(_say("isolation_short", language, level=level))
    told = _Reasons(open_rows[0] if open_rows else None, language)
    lines = [text for row in rows for text in told.row(row)]
    if open_rows:
        lines.append(_say("legend", language, **glyphs()))
        if all(row.kind == "not_started" for row in rows):
            # What a file from another lab has to be given bears no TODO.
            key = "nothing_yet" if any(row.exercise.id in todos for row in rows) else "no_todo"
            lines += ["", *folded(_say(key, language), columns())]
        lines += _detail(open_rows[0], record, LINES - len(lines) - len(end), language)
    if prints:
        lines += _all_prints(rows, record, language)
    return "\n".join([*lines, *end]), not open_rows


def _all_prints(rows: Sequence[ScoreRow], record: ClassRecord, language: str) -> list[str]:
    """Return what each check that passed has printed, under its title."""
    lines = []
    results = {result.check: result for result in record.hand_ins[0].results}
    for check in (check for row in rows for check in row.checks):
        result = results[check.name]
        if result.outcome is Outcome.PASSED and result.prints:
            lines += ["", _say("prints_of", language, title=line(check.title.in_(language)))]
            lines += [f"    {text}" for text in block(result.prints).splitlines()]
    return lines or ["", _say("no_prints", language)]


class _Reasons:
    """Says each reason once: what ails a file ails every exercise in it."""

    def __init__(self, first: ScoreRow | None, language: str) -> None:
        self._first = first  # its reason stands below the rows
        self._language = language
        self._seen: set[str] = set()

    def row(self, row: ScoreRow) -> list[str]:
        """The line of an exercise, or up to three where it waits for what has a long name."""
        earned, worth = row.points
        head = f"{coloured(row.kind)} {earned:>3}/{worth:<3} {row.name:<{_NAME}} "
        title = line(row.exercise.title.in_(self._language))
        if row.reason is None:
            return [head + title]
        if earned and row.kind == "other":
            title = _say("part", self._language, title=title, count=worth - earned)
        reason = line(render(row.reason, self._language))
        if reason in self._seen:
            return [head + title + _say("same", self._language)]
        self._seen.add(reason)
        if row is self._first and row.kind == "failed":
            return [head + title]
        room = columns() - _INDENT
        colon = "：" if self._language == "zh" else ": "
        texts = folded(title + colon + reason, room)
        if len(texts) > 2 and row.kind == "failed":  # what holds in right code is shorter
            holds = line(row.first[0].title.in_(self._language))
            texts = folded(f"{title}{colon}“{holds}”", room)
        if len(texts) > 3 or (len(texts) > 2 and row.kind == "failed"):
            texts = [texts[0], fitted(" ".join(texts[1:]), room).rstrip()]
        return [head + texts[0], *(" " * _INDENT + text for text in texts[1:])]


def _detail(row: ScoreRow, record: ClassRecord, room: int, language: str) -> list[str]:
    """The first check that did not pass, in ``room`` lines, and the titles of others."""
    check, result = root_of(row, record)
    if result.outcome is Outcome.NOT_STARTED or result.message is None:
        return []
    file, here = _whole_file(result), check.exercise == row.exercise.id
    others = [
        c
        for c, r in row.missed
        if here and r.outcome in BAD and c is not check
        if not (file and r.message == result.message)
    ]
    of = "" if here else short(check.exercise)
    waiting = sum(here and r.outcome is Outcome.SKIPPED for _, r in row.missed)
    below = min(_LEAST, len(others)) + bool(others) + bool(waiting)
    steps = _steps(record, row, language) if here else []
    lines = ["", *symptom(check, result, language, room - 1 - below - len(steps), of), *steps]
    if others:
        titles = [f"    {line(one.title.in_(language))}" for one in others[:_MORE]]
        titles = titles[: max(_LEAST, room - len(lines) - 1 - bool(waiting))]
        key = "also_first" if len(titles) < len(others) else "also"
        lines += [_say(key, language, count=len(others), shown=len(titles)), *titles]
    return [*lines, _say("not_run", language, count=waiting)] if waiting else lines


def _steps(record: ClassRecord, row: ScoreRow, language: str) -> list[str]:
    """Up to which step the student's numbers are right, and which one differs first."""
    finding = finding_of(record, row)
    known = [one for one in finding.known if one.key.startswith(_STEPS)] if finding else []
    said = [folded(sentence(one, language, line), columns() - 2) for one in known]
    return [f"  {text}" for texts in said for text in texts]


def _whole_file(result: CheckResult) -> bool:
    """Return whether what is wrong ails every check of the file."""
    key = key_of(result)
    return key in NO_MATHEMATICS or key.startswith("intake.")


def symptom(
    check: Check, result: CheckResult, language: str, room: int = LINES, exercise: str = ""
) -> list[str]:
    """Return what became of a check: outcome and title, its sentence, traceback and prints.

    Of what does not fit into ``room`` lines the first frame and the last ones are left, and the
    first and last prints: two frames and one print at least. ``exercise`` is named, if any.
    """
    word = render(Message(f"outcome.{result.outcome.value}"), language)
    title = line(check.title.in_(language)).rstrip(".。")
    values = {"outcome": word, "title": title, "exercise": exercise}
    lines = folded(_say("check_of" if exercise else "check", language, **values), columns())
    if result.message is not None:
        reason = render(result.message, language)
        lines += [f"  {text}" for text in folded(reason, columns() - 2)]
    prints = block(result.prints).splitlines() if result.prints else []
    left = room - len(lines) - (min(_PRINTS, len(prints)) + 1 if prints else 0)
    for frame in _ends(result.frames, max(2, min(_FRAMES, left))):
        lines.append(f"    {line(frame.file)}:{frame.line}  {line(frame.text)}")
    if prints:
        lines.append("  " + label("prints", language) + ":")
        shown = cut(prints, max(1, min(_PRINTS, room - len(lines))))
        lines += [f"    {text}" for text in shown]
    return lines


def _ends(frames: tuple[Frame, ...], most: int) -> tuple[Frame, ...]:
    """Where the student's code was entered, and the innermost lines: ``most`` at most."""
    return frames if len(frames) <= most else (frames[0], *frames[1 - most :])


def _total(rows: Sequence[ScoreRow], hidden: int | None, language: str) -> list[str]:
    earned, total = (sum(row.points[part] for row in rows) for part in (0, 1))
    values = {"earned": earned, "total": total}
    if hidden:
        text = _say("public_total_of", language, hidden=hidden, **values)
    else:
        text = _say("public_total" if hidden is None else "public_total_all", language, **values)
    return folded(text, columns())


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)


# All labs at a glance: one row per lab, and the command for the one to go on with.

_TITLE = 56  # columns at most


@dataclass(frozen=True)
class LabRow:
    """A lab with its exercises as they stand; none where the lab was not begun."""

    lab: Lab
    rows: tuple[ScoreRow, ...]

    @property
    def kind(self) -> str:
        """As of a :class:`Row`; ``other`` where some exercises wait, and none is wrong."""
        kinds = {row.kind for row in self.rows}
        if kinds <= {"not_started"}:
            return "not_started"
        if kinds == {"passed"}:
            return "passed"
        return "failed" if "failed" in kinds else "other"

    @property
    def mark(self) -> str:
        """Return whose glyph is shown: what is half done and right so far is not yet finished."""
        return "not_started" if self.kind == "other" else self.kind

    @property
    def points(self) -> tuple[int, int]:
        """Earned, and worth."""
        earned = sum(row.points[0] for row in self.rows)
        return earned, self.lab.points


def overview(
    labs: Sequence[LabRow],
    language: str,
    todos: Callable[[Lab], Mapping[str, str]] = lambda lab: {},
) -> str:
    """The text for the terminal; ``todos``: where those of a lab stand, by exercise."""
    titles = [width(line(lab.lab.title.in_(language))) for lab in labs]
    column = min(_TITLE, max(titles))
    lines = [_line(lab, column, language) for lab in labs]
    lines += [_say_overview("legend", language, **glyphs()), ""]
    open_labs = [lab for lab in labs if lab.kind != "passed"]
    begun = [lab for lab in open_labs if lab.kind != "not_started"]
    if not open_labs:
        return "\n".join([*lines, _say_overview("all_labs_done", language)])
    if all(lab.kind == "not_started" for lab in labs):
        lines.append(_say_overview("nothing_yet_anywhere", language))
    first = (begun or open_labs)[0]
    places = todos(first.lab) if first.kind != "failed" else {}
    for place in [places[e.id] for e in first.lab.exercises if e.id in places][:1]:
        lines.append(_say("todo", language, place=place))
    command = command_of(number_of(first.lab), "test")
    return "\n".join([*lines, _say_overview("next", language, command=command)])


def _line(one: LabRow, column: int, language: str) -> str:
    earned, worth = one.points
    title = fitted(line(one.lab.title.in_(language)), column)
    if one.kind == "not_started":
        said = _say_overview("lab_not_started", language, count=len(one.lab.exercises))
    else:
        passed = sum(row.kind == "passed" for row in one.rows)
        said = _say_overview("lab", language, passed=passed, count=len(one.rows))
    return (
        f"{coloured(one.mark)} {earned:>3}/{worth:<3} LAB={number_of(one.lab):<2} {title}  {said}"
    )


def _say_overview(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)


# Results of one's own checks as JSON, in the shape of Classroom 50's ``result.json``.
#
# ``version`` is FORMAT: it rises when a key goes or changes its meaning; keys may be added. The
# students' README lists them. Those of Classroom 50: foundation50/classroom50,
# ``wiki/Advanced-Autograding.md``; what else a test holds is kept there as it is. What could not be
# checked is neither in ``score`` nor in ``max-score``.

FORMAT = 1
MAX_OUTPUT = 500  # characters of what a test printed


def text_of(record: ClassRecord, language: str) -> str:
    """One line of ASCII JSON.

    Args:
        record: holds exactly one hand-in.
        language: ``en`` or ``zh``.
    """
    return json.dumps(document(record, language), separators=(",", ":")) + "\n"


def document(record: ClassRecord, language: str) -> dict[str, Any]:
    """The results as plain data, in whole points."""
    (hand_in,) = record.hand_ins
    results = {result.check: result for result in hand_in.results}
    tests = []
    for exercise in record.lab.exercises:
        for check in exercise.checks:
            result = results.get(check.name)
            if result is None or result.outcome is Outcome.NOT_GRADED:
                continue
            passed = result.outcome is Outcome.PASSED
            told: dict[str, Any] = {
                "test-name": f"{exercise.id}: {line(check.title.in_(language))}"
            }
            told |= {"passed": passed, "score": check.points if passed else 0}
            told |= {"max-score": check.points, "file": exercise.file}
            tests.append(told | _said(result, language))
    score = score_of(record.lab, hand_in)
    return {
        "version": FORMAT,
        "lab": record.lab.name,
        "score": score.earned,
        "max-score": score.gradable,
        "tests": tests,
    }


def _said(result: CheckResult, language: str) -> dict[str, Any]:
    """The sentence, what was printed (its two ends), and where; each as far as there is one."""
    told: dict[str, Any] = {}
    if result.outcome is not Outcome.PASSED:
        word = render(Message(f"outcome.{result.outcome.value}"), language)
        why = line(render(result.message, language)) if result.message is not None else ""
        told["message"] = f"{word}: {why}" if why else word
    if result.frames:
        told["line"] = result.frames[-1].line
    if result.prints:
        told["output"] = cut_text(block(result.prints), MAX_OUTPUT)
    return told

"""What changed between two gradings, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from autograder.course.messages import render
from autograder.course.records import Message, Misconception, Outcome, Score
from autograder.report.compare import Changed, Comparison
from autograder.report.escape import fitted, folded, line, width

MAX_WIDTH = 100
NAMED = 3  # checks and mistakes that are named per student
_OURS = ("isolation", "hidden_cases", "public_cases")  # the other names are of releases
CHECKS = 20
LISTED = 10  # students that are in one of both only
_STUDENT = 28
_NUMBER = 6
_CHANGE = 26
SCHEMA = "qwen3-labs.compare"
VERSION = 1


def text(comparison: Comparison, language: str) -> str:
    """Lines of at most 100 columns: what may explain it, who changed, and in which checks."""

    lines = [_say("counts", language, before=comparison.before, after=comparison.after)]
    explained = "; ".join(
        f"{_say(name, language) if name in _OURS else name} {a} -> {b}"
        for name, a, b in comparison.graded_with
    )
    if explained:
        lines += folded(_say("graded_with", language, changes=explained), MAX_WIDTH)
    if comparison.points:
        lines += ["", _say("points", language)]
        for one in comparison.points:
            change = f"{_or_dash(one.before):>4} -> {_or_dash(one.after):<4} "
            title = fitted(_title(one.title.in_(language)), MAX_WIDTH - len(change))
            lines.append((change + title).rstrip())
    if comparison.changed:
        lines += ["", *_students(comparison, language), *_checks(comparison, language)]
    for key, students in (("new", comparison.new), ("gone", comparison.gone)):
        if students:
            told = [f"{line(name)} ({_number(score)})" for name, score in students[:LISTED]]
            told += [f"… (+{len(students) - LISTED})"] if len(students) > LISTED else []
            names = ", ".join(told)
            lines += [
                "",
                *folded(_say(key, language, count=len(students), students=names), MAX_WIDTH),
            ]
    if comparison.same:
        lines.append(_say("same", language))
    elif comparison.changed:
        stayed = comparison.before - len(comparison.gone) - len(comparison.changed)
        lines += ["", _say("stayed", language, count=stayed)]
    return "\n".join(lines)


def _students(comparison: Comparison, language: str) -> list[str]:
    heads = [_say(name, language) for name in ("student", "before", "after", "what")]
    names = [line(one.student) for one in comparison.changed]
    column = min(_STUDENT, max(width(name) for name in (heads[0], *names)))
    number = max(_NUMBER, width(heads[1]), width(heads[2]))
    room = MAX_WIDTH - column - 2 * number - 3
    lines = [
        f"{fitted(heads[0], column)} {_right(heads[1], number)} {_right(heads[2], number)} "
        + heads[3]
    ]
    for one in comparison.changed:
        told = folded(_SEPARATOR[language].join(_what(one, comparison, language)), room)
        scores = [_right(_number(each.score), number) for each in (one.before, one.after)]
        lines.append(f"{fitted(one.student, column)} {' '.join(scores)} {(told or [''])[0]}")
        lines += [" " * (column + 2 * number + 3) + rest for rest in told[1:]]
    return [each.rstrip() for each in lines]


_SEPARATOR = {"en": "; ", "zh": "；"}
_COMMA = {"en": ", ", "zh": "、"}
_COLON = {"en": ": ", "zh": "："}


def _what(one: Changed, comparison: Comparison, language: str) -> list[str]:
    """What happened to a hand-in, in a few words each."""
    told = [_say("files", language)] if one.new_files else []
    titles = {check.name: check.title.in_(language) for check in comparison.lab.checks}
    kinds: dict[tuple[Outcome | None, Outcome | None], list[str]] = {}
    for check, before, after in one.checks:
        kinds.setdefault((before, after), []).append(_title(titles.get(check, check)))
    for (before, after), checks in kinds.items():
        named = _COMMA[language].join(f"“{title}”" for title in checks[:NAMED])
        more = f" (+{len(checks) - NAMED})" if len(checks) > NAMED else ""
        told.append(
            f"{_word(before, language)} -> {_word(after, language)}{_COLON[language]}{named}{more}"
        )
    for key, mistakes in (("gained", one.gained), ("lost", one.lost)):
        if mistakes:
            told.append(_say(key, language, names=_names(mistakes, language)))
    if one.before.penalty != one.after.penalty:
        told.append(_say("late", language, before=one.before.penalty, after=one.after.penalty))
    if one.before.decided != one.after.decided:
        told.append(_say("decided", language))
    if [mark.key for mark in one.before.marks] != [mark.key for mark in one.after.marks]:
        told.append(
            _say("marks", language, before=len(one.before.marks), after=len(one.after.marks))
        )
    return told or [_say("only_points", language)]


def _checks(comparison: Comparison, language: str) -> list[str]:
    counted = comparison.by_check()
    if not counted:
        return []
    titles = {check.name: check.title.in_(language) for check in comparison.lab.checks}
    lines = ["", _say("checks", language)]
    for (check, before, after), count in counted.most_common(CHECKS):
        change = f"{_word(before, language)} -> {_word(after, language)}"
        title = fitted(_title(titles.get(check, check)), MAX_WIDTH - 5 - _CHANGE - 1)
        lines.append(f"{count:>4} {fitted(change, _CHANGE)} {title}".rstrip())
    if len(counted) > CHECKS:
        lines.append(_say("more_checks", language, count=len(counted) - CHECKS))
    return lines


def plain(comparison: Comparison) -> dict[str, Any]:
    """The same as JSON data; outcomes by their values, mistakes by their ids."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "lab": comparison.lab.name,
        "same": comparison.same,
        "hand_ins": {"before": comparison.before, "after": comparison.after},
        "graded_with": [
            {"name": name, "before": before, "after": after}
            for name, before, after in comparison.graded_with
        ],
        "points": [
            {"check": one.check, "before": one.before, "after": one.after}
            for one in comparison.points
        ],
        "changed": [_plain(one) for one in comparison.changed],
        "new": [{"student": name, "score": asdict(score)} for name, score in comparison.new],
        "gone": [{"student": name, "score": asdict(score)} for name, score in comparison.gone],
    }


def _plain(one: Changed) -> dict[str, Any]:
    return {
        "student": one.student,
        "before": asdict(one.before.score),
        "after": asdict(one.after.score),
        "new_files": one.new_files,
        "checks": [
            {"check": name, "before": before, "after": after} for name, before, after in one.checks
        ],
        "mistakes": {
            "before": [mistake.id for mistake in one.before.mistakes],
            "after": [mistake.id for mistake in one.after.mistakes],
        },
        "marks": {
            "before": [mark.key for mark in one.before.marks],
            "after": [mark.key for mark in one.after.marks],
        },
        "late_penalty": {"before": one.before.penalty, "after": one.after.penalty},
        "decided": {
            "before": dict(one.before.decided),
            "after": dict(one.after.decided),
        },
    }


def _word(outcome: Outcome | None, language: str) -> str:
    if outcome is None:
        return _say("absent", language)
    return render(Message(f"outcome.{outcome.value}"), language)


def _names(mistakes: Sequence[Misconception], language: str) -> str:
    names = [line(one.name.in_(language)).replace("`", "") for one in mistakes]
    more = f" (+{len(names) - NAMED})" if len(names) > NAMED else ""
    return _SEPARATOR[language].join(f"“{name}”" for name in names[:NAMED]) + more


def _title(title: str) -> str:
    return line(title.replace("`", "")).rstrip(".。")


def _number(score: Score) -> str:
    return f"{score.earned}?" if score.undecided else str(score.earned)


def _or_dash(points: int | None) -> str:
    return "-" if points is None else str(points)


def _right(text: str, columns: int) -> str:
    return " " * max(0, columns - width(text)) + text


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"compare.{name}", values), language)

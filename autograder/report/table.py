"""The table of a class for the terminal: plain ASCII rules, aligned by East Asian width."""

from __future__ import annotations

from autograder.course.messages import render
from autograder.course.records import (
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    HandIn,
    Lab,
    Message,
    Outcome,
    Score,
)
from autograder.course.score import needs_human, score_of
from autograder.report.escape import fitted, line, width
from autograder.report.view import label, sentence

MAX_WIDTH = 100
_WHOLE_FILE = ("intake.", "check.syntax", "check.import", "check.file_lost", "check.not_importable")
_STUDENT_WIDTH = 24
_LEAST_REMARK = 16


def class_table(record: ClassRecord, language: str) -> str:
    """One row per hand-in: student, total, points per exercise, a remark; at most 100 columns.

    Exercises are numbered in the head; the legend below names them. ``?`` after a number says
    that some of these points are to be decided.
    """
    lab = record.lab
    if not record.hand_ins:
        return label("no_hand_ins", language)
    students = [line(hand_in.student) for hand_in in record.hand_ins]
    heads = [label("student", language), label("best", language), *students]
    student_width = min(_STUDENT_WIDTH, max(width(head) for head in heads))
    total_width = max(5, width(label("total", language)), len(str(lab.points)) + 1)
    cell = max(3, *(len(str(exercise.points)) + 1 for exercise in lab.exercises), 3)
    room = MAX_WIDTH - student_width - 1 - total_width - 1 - _LEAST_REMARK
    shown = lab.exercises[: max(0, room // (cell + 1))]
    remark_width = MAX_WIDTH - student_width - 1 - total_width - 1 - len(shown) * (cell + 1)

    def row(student: str, total: str, cells: list[str], remark: str) -> str:
        columns = [fitted(student, student_width), _right(total, total_width)]
        columns += [_right(each, cell) for each in cells]
        return " ".join([*columns, fitted(remark, remark_width)]).rstrip()

    numbers = [str(index + 1) for index in range(len(shown))]
    head = row(
        label("student", language), label("total", language), numbers, label("remark", language)
    )
    best = row(label("best", language), str(lab.points), [str(one.points) for one in shown], "")
    rows = []
    for hand_in in record.hand_ins:
        total = _number(score_of(lab, hand_in))
        cells = [_number(score_of(lab, hand_in, one.id)) for one in shown]
        rows.append(row(hand_in.student, total, cells, _remark(lab, hand_in, language)))
    rule = "-" * max(width(each) for each in (head, best, *rows))
    legend = [
        f"{index + 1:>3} {fitted(_legend(one, language), MAX_WIDTH - 4)}"
        for index, one in enumerate(lab.exercises)
    ]
    human = sum(needs_human(lab, hand_in) for hand_in in record.hand_ins)
    foot = label(
        "class_line",
        language,
        count=len(rows),
        human=human,
        level=line(record.isolation.level),
    )
    lines = [head, best, rule, *rows, rule, *legend, fitted(foot, MAX_WIDTH)]
    if record.missing:
        names = ", ".join(line(one.name or one.id or one.email) for one in record.missing)
        lines.append(label("missing", language, count=len(record.missing), students=names))
    return "\n".join(each.rstrip() for each in lines)


def _remark(lab: Lab, hand_in: HandIn, language: str) -> str:
    """What to look at first: ``for a human``, then the first check that did not pass.

    Its title says what should hold, so it stands in quotation marks, and behind how many others
    did not pass either.
    """
    parts = [label("late", language)] if hand_in.origin.late else []
    parts += [label("for_a_human", language)] if needs_human(lab, hand_in) else []
    parts += [label("decided_short", language)] if hand_in.overrides else []
    results = {result.check: result for result in hand_in.results}
    left = [(check, results.get(check.name)) for check in lab.checks]
    left = [(check, result) for check, result in left if not _fine(check, result)]
    if left:
        check, result = left[0]
        outcome = Outcome.NOT_GRADED if result is None else result.outcome
        word = render(Message(f"outcome.{outcome.value}"), language)
        message = result.message if result else None
        if message is not None and message.key.startswith(_WHOLE_FILE):
            # What is wrong is the file, not the check.
            parts.append(f"{word}: {sentence(message, language, line)}")
        else:
            title = check.title.in_(language).replace("`", "")
            key = "first_of" if len(left) > 1 else "first"
            parts.append(label(key, language, word=word, count=len(left), title=title))
    return "; ".join(parts)


def _fine(check: Check, result: CheckResult | None) -> bool:
    outcome = Outcome.NOT_GRADED if result is None else result.outcome
    return outcome is Outcome.PASSED or (outcome is Outcome.NOT_GRADED and check.optional)


def _legend(exercise: Exercise, language: str) -> str:
    title = exercise.title.in_(language).replace("`", "")
    return f"{exercise.id}: {title} ({exercise.points})"


def _number(score: Score) -> str:
    return f"{score.earned}?" if score.undecided else str(score.earned)


def _right(text: str, columns: int) -> str:
    return " " * max(0, columns - width(text)) + text

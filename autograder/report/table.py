"""The table of a class for the terminal: plain ASCII rules, aligned by East Asian width."""

from __future__ import annotations

from collections.abc import Sequence

from autograder.course.messages import render
from autograder.course.records import (
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    HandIn,
    Isolation,
    Lab,
    Message,
    Outcome,
    Score,
    Student,
)
from autograder.course.score import final_of, is_late, late_penalty_of, needs_human, score_of
from autograder.report.broken_files import of_a_file
from autograder.report.class_summary import look
from autograder.report.escape import fitted, line, width
from autograder.report.view import BAD, label, sentence

MAX_WIDTH = 100
_STUDENT_WIDTH = 24
_LEAST_REMARK = 16


class ClassTable:
    """One row per hand-in: student, total, points per exercise, a remark; at most 100 columns.

    Exercises are numbered in the head; the legend below names them. ``?`` after a number says
    that some of these points are to be decided.
    """

    def __init__(self, lab: Lab, language: str) -> None:
        self._lab = lab
        self._language = language
        self._rows: list[tuple[str, tuple[str, ...], str]] = []
        self._points: dict[tuple[str, ...], tuple[str, ...]] = {}  # most classmates' are the same
        self._human = 0

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        lab = self._lab
        scores = (score_of(lab, hand_in), *(score_of(lab, hand_in, e.id) for e in lab.exercises))
        points = tuple(map(_number, scores))
        points = self._points.setdefault(points, points)
        self._rows.append((hand_in.student, points, _remark(lab, hand_in, self._language)))
        self._human += needs_human(lab, hand_in)

    def text(self, isolation: Isolation, missing: Sequence[Student]) -> str:
        """The table of those that were taken, and who handed in nothing."""
        lab, language = self._lab, self._language
        if not self._rows:
            return label("no_hand_ins", language)
        heads = [label("student", language), label("best", language)]
        widest = max(width(line(each)) for each in (*heads, *(row[0] for row in self._rows)))
        student_width = min(_STUDENT_WIDTH, widest)
        total_width = max(5, width(label("total", language)), len(str(lab.points)) + 1)
        cell = max(3, *(len(str(exercise.points)) + 1 for exercise in lab.exercises), 3)
        room = MAX_WIDTH - student_width - 1 - total_width - 1 - _LEAST_REMARK
        shown = lab.exercises[: max(0, room // (cell + 1))]
        remark_width = MAX_WIDTH - student_width - 1 - total_width - 1 - len(shown) * (cell + 1)

        def row(student: str, points: Sequence[str], remark: str) -> str:
            columns = [fitted(student, student_width), _right(points[0], total_width)]
            columns += [_right(each, cell) for each in points[1 : 1 + len(shown)]]
            return " ".join([*columns, fitted(remark, remark_width)]).rstrip()

        numbers = [str(index + 1) for index in range(len(shown))]
        titles = [label("total", language), *numbers]
        head = row(label("student", language), titles, label("remark", language))
        most = [str(lab.points), *(str(one.points) for one in shown)]
        best = row(label("best", language), most, "")
        rows = [row(*each) for each in self._rows]
        rule = "-" * max(width(each) for each in (head, best, *rows))
        legend = [
            f"{index + 1:>3} {fitted(_legend(one, language), MAX_WIDTH - 4)}"
            for index, one in enumerate(lab.exercises)
        ]
        foot = label(
            "class_line",
            language,
            count=len(rows),
            human=self._human,
            level=line(isolation.level),
        )
        lines = [head, best, rule, *rows, rule, *legend, fitted(foot, MAX_WIDTH)]
        if missing:
            names = ", ".join(line(one.name or one.id or one.email) for one in missing)
            lines.append(label("missing", language, count=len(missing), students=names))
        return "\n".join(each.rstrip() for each in lines)


def class_table(record: ClassRecord, language: str) -> str:
    """The table of a whole class; see :class:`ClassTable`."""
    table = ClassTable(record.lab, language)
    look(record.hand_ins, [table])
    return table.text(record.isolation, record.missing)


def _remark(lab: Lab, hand_in: HandIn, language: str) -> str:
    """Return what to look at first: ``for a human``, then the first check that did not pass.

    Its title says what should hold, so it stands in quotation marks, and behind how many others
    did not pass either.
    """
    parts = _late(lab, hand_in, language)
    parts += [label("for_a_human", language)] if needs_human(lab, hand_in) else []
    parts += [label("decided_short", language)] if _changed(hand_in) else []
    results = {result.check: result for result in hand_in.results}
    left = [(check, results.get(check.name)) for check in lab.checks]
    left = [(check, result) for check, result in left if not _fine(check, result)]
    if left:
        check, result = left[0]
        outcome = Outcome.NOT_GRADED if result is None else result.outcome
        word = render(Message(f"outcome.{outcome.value}"), language)
        if result is not None and result.message is not None and of_a_file(result):
            parts.append(f"{word}: {sentence(result.message, language, line)}")
        else:
            title = check.title.in_(language).replace("`", "")
            key = "first_of" if len(left) > 1 else "first"
            parts.append(label(key, language, word=word, count=len(left), title=title))
    return "; ".join(parts)


def _changed(hand_in: HandIn) -> bool:
    return any(one.points is not None or one.bonus for one in hand_in.overrides)


def _late(lab: Lab, hand_in: HandIn, language: str) -> list[str]:
    """That it is late; by how much and what that costs, where the course says so."""
    if not is_late(hand_in):
        return []
    if hand_in.lateness is None or hand_in.lateness.days is None:
        return [label("late", language)]
    penalty, final = late_penalty_of(lab, hand_in), final_of(lab, hand_in)
    values = {"days": hand_in.lateness.days, "penalty": penalty, "final": final}
    return [label("late_short", language, **values)]


def _fine(check: Check, result: CheckResult | None) -> bool:
    outcome = Outcome.NOT_GRADED if result is None else result.outcome
    return outcome is Outcome.PASSED or (check.optional and outcome not in BAD)


def _legend(exercise: Exercise, language: str) -> str:
    title = exercise.title.in_(language).replace("`", "")
    return f"{exercise.id}: {title} ({exercise.points})"


def _number(score: Score) -> str:
    return f"{score.earned}?" if score.undecided else str(score.earned)


def _right(text: str, columns: int) -> str:
    return " " * max(0, columns - width(text)) + text

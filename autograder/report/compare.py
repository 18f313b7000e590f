"""Compares two gradings of a class: who changed, in which checks, and why it may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autograder.course.messages import render
from autograder.course.records import (
    Certainty,
    Check,
    ClassRecord,
    HandIn,
    Lab,
    Message,
    Misconception,
    Outcome,
    Score,
    Text,
)
from autograder.course.score import late_penalty_of, score_of
from autograder.report.escape import fitted, folded, line, width


@dataclass(frozen=True)
class ComparedHandIn:
    """One hand-in as far as two gradings are compared.

    ``outcomes`` in the order of the lab's checks; ``mistakes`` are those that were recognised;
    ``penalty`` is what lateness takes of the points.
    """

    score: Score
    outcomes: tuple[Outcome, ...]
    mistakes: tuple[Misconception, ...]
    marks: tuple[Message, ...]
    decided: tuple[tuple[str, float], ...]
    penalty: int
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ChangedHandIn:
    """A hand-in that is in both and did not stay as it was.

    ``checks`` are those whose outcome changed (``None``: the check was not there).
    ``new_files``: the student has handed in other files since.
    """

    student: str
    before: ComparedHandIn
    after: ComparedHandIn
    checks: tuple[tuple[str, Outcome | None, Outcome | None], ...]
    new_files: bool

    @property
    def gained(self) -> tuple[Misconception, ...]:
        """Mistakes that are recognised now only."""
        return _without(self.after.mistakes, self.before.mistakes)

    @property
    def lost(self) -> tuple[Misconception, ...]:
        """Mistakes that are recognised no more."""
        return _without(self.before.mistakes, self.after.mistakes)


@dataclass(frozen=True)
class PointsChange:
    """Points of a check, before and after; None where it was not there."""

    check: str
    title: Text
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Comparison:
    """Everything that changed; ``graded_with`` (releases, cases, isolation) only explains it."""

    lab: Lab
    before: int
    after: int
    changed: tuple[ChangedHandIn, ...]
    new: tuple[tuple[str, Score], ...]
    gone: tuple[tuple[str, Score], ...]
    points: tuple[PointsChange, ...]
    graded_with: tuple[tuple[str, str, str], ...]

    @property
    def same(self) -> bool:
        """Return whether both give every student the same."""
        return not (self.changed or self.new or self.gone or self.points)

    def by_check(self) -> Counter[tuple[str, Outcome | None, Outcome | None]]:
        """Return how many hand-ins changed from one outcome to another, by check."""
        return Counter(one for changed in self.changed for one in changed.checks)


def compare(
    before: tuple[ClassRecord, Iterable[HandIn]], after: tuple[ClassRecord, Iterable[HandIn]]
) -> Comparison:
    """Two gradings of the same lab, each as its class and its hand-ins one after the other.

    Raises:
        ValueError: they are of different labs.
    """
    old, new = before[0].lab, after[0].lab
    if old.name != new.name:
        raise ValueError(
            f"compare: {old.name} and {new.name} are different labs; give two gradings of one"
        )
    known = {hand_in.student: _standing(old, hand_in) for hand_in in before[1]}
    old_count, new_count = len(known), 0
    changed, fresh = [], []
    for hand_in in after[1]:
        new_count += 1
        then, now = known.pop(hand_in.student, None), _standing(new, hand_in)
        if then is None:
            fresh.append((hand_in.student, now.score))
        elif (one := _change(hand_in.student, old, then, new, now)) is not None:
            changed.append(one)
    return Comparison(
        lab=new,
        before=old_count,
        after=new_count,
        changed=tuple(changed),
        new=tuple(fresh),
        gone=tuple((student, standing.score) for student, standing in known.items()),
        points=tuple(_points(old, new)),
        graded_with=tuple(_graded_with(before[0], after[0])),
    )


def _standing(lab: Lab, hand_in: HandIn) -> ComparedHandIn:
    outcomes = {result.check: result.outcome for result in hand_in.results}
    mistakes = {
        one.id: one
        for finding in hand_in.findings
        if finding.certainty is not Certainty.UNKNOWN
        for one in finding.misconceptions
    }
    return ComparedHandIn(
        score_of(lab, hand_in),
        tuple(outcomes.get(check.name, Outcome.NOT_GRADED) for check in lab.checks),
        tuple(mistakes[name] for name in sorted(mistakes)),
        hand_in.marks,
        tuple(sorted(_decisions(hand_in))),
        late_penalty_of(lab, hand_in),
        tuple(sorted(hand_in.digests.items())),
    )


def _decisions(hand_in: HandIn) -> Iterable[tuple[str, float]]:
    """Return what a person has decided, without why and by whom."""
    for one in hand_in.overrides:
        place = one.check or one.exercise or "hand-in"
        if one.points is not None:
            yield place, one.points
        if one.bonus:
            yield f"{place} bonus", one.bonus
        if one.looked_at:
            yield "looked_at", 1


def _change(
    student: str, old: Lab, then: ComparedHandIn, new: Lab, now: ComparedHandIn
) -> ChangedHandIn | None:
    before = {check.name: outcome for check, outcome in zip(old.checks, then.outcomes, strict=True)}
    after = {check.name: outcome for check, outcome in zip(new.checks, now.outcomes, strict=True)}
    checks = tuple(
        (name, before.get(name), after.get(name))
        for name in _names(old, new)
        if before.get(name) is not after.get(name)
    )
    same = (
        then.score == now.score
        and not checks
        and _ids(then.mistakes) == _ids(now.mistakes)
        and sorted(mark.key for mark in then.marks) == sorted(mark.key for mark in now.marks)
        and then.decided == now.decided
        and then.penalty == now.penalty
    )
    return None if same else ChangedHandIn(student, then, now, checks, then.files != now.files)


def _names(old: Lab, new: Lab) -> dict[str, Check]:
    """Checks of both, those of the newer first."""
    return {check.name: check for lab in (old, new) for check in lab.checks}


def _points(old: Lab, new: Lab) -> Iterable[PointsChange]:
    before = {check.name: check.points for check in old.checks}
    after = {check.name: check.points for check in new.checks}
    for name, check in _names(old, new).items():
        if before.get(name) != after.get(name):
            yield PointsChange(name, check.title, before.get(name), after.get(name))


def _graded_with(old: ClassRecord, new: ClassRecord) -> Iterable[tuple[str, str, str]]:
    """Return what may explain a change: by name, before and after."""
    before, after = ({**record.versions} for record in (old, new))
    for record, told in ((old, before), (new, after)):
        told["isolation"] = record.isolation.level
        told["hidden_cases"] = str(record.hidden_cases)
        told["public_cases"] = str(record.public_cases)
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield name, before.get(name, "-"), after.get(name, "-")


def _ids(mistakes: Iterable[Misconception]) -> set[str]:
    return {one.id for one in mistakes}


def _without(
    these: Iterable[Misconception], those: Iterable[Misconception]
) -> tuple[Misconception, ...]:
    known = _ids(those)
    return tuple(one for one in these if one.id not in known)


# What changed between two gradings, for a terminal and as JSON.

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


def _what(one: ChangedHandIn, comparison: Comparison, language: str) -> list[str]:
    """Return what happened to a hand-in, in a few words each."""
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
            told.append(_say(key, language, names=_names_compare_text(mistakes, language)))
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


def _plain(one: ChangedHandIn) -> dict[str, Any]:
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


def _names_compare_text(mistakes: Sequence[Misconception], language: str) -> str:
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

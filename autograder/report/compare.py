"""What changed between two gradings of a class: who, in which checks, and why it may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Standing:
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
class Changed:
    """A hand-in that is in both and did not stay as it was.

    ``checks`` are those whose outcome changed (``None``: the check was not there).
    ``new_files``: the student has handed in other files since.
    """

    student: str
    before: Standing
    after: Standing
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
    changed: tuple[Changed, ...]
    new: tuple[tuple[str, Score], ...]
    gone: tuple[tuple[str, Score], ...]
    points: tuple[PointsChange, ...]
    graded_with: tuple[tuple[str, str, str], ...]

    @property
    def same(self) -> bool:
        """Whether both give every student the same."""
        return not (self.changed or self.new or self.gone or self.points)

    def by_check(self) -> Counter[tuple[str, Outcome | None, Outcome | None]]:
        """How many hand-ins changed from one outcome to another, by check."""
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


def _standing(lab: Lab, hand_in: HandIn) -> Standing:
    outcomes = {result.check: result.outcome for result in hand_in.results}
    mistakes = {
        one.id: one
        for finding in hand_in.findings
        if finding.certainty is not Certainty.UNKNOWN
        for one in finding.misconceptions
    }
    return Standing(
        score_of(lab, hand_in),
        tuple(outcomes.get(check.name, Outcome.NOT_GRADED) for check in lab.checks),
        tuple(mistakes[name] for name in sorted(mistakes)),
        hand_in.marks,
        tuple(sorted(_decisions(hand_in))),
        late_penalty_of(lab, hand_in),
        tuple(sorted(hand_in.digests.items())),
    )


def _decisions(hand_in: HandIn) -> Iterable[tuple[str, float]]:
    """What a person has decided, without why and by whom."""
    for one in hand_in.overrides:
        place = one.check or one.exercise or "hand-in"
        if one.points is not None:
            yield place, one.points
        if one.bonus:
            yield f"{place} bonus", one.bonus
        if one.looked_at:
            yield "looked_at", 1


def _change(student: str, old: Lab, then: Standing, new: Lab, now: Standing) -> Changed | None:
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
    return None if same else Changed(student, then, now, checks, then.files != now.files)


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
    """What may explain a change: by name, before and after."""
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

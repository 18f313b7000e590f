"""Several hand-ins of one person: which one counts.

Every entry has an id of its own: the first of several that ask for the same id gets it, the
others ``-2``, ``-3``, … (see ``student_ids``). So all attempts can be graded side by side. What
remains of a person carries the shortest of the ids: the one without a number, that every choice
of attempts and every later run gives to the same person. Attempts belong together when their
students (not their ids) are the same; a group is the set of its members.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from autograder.course.records import HandIn, Lab, LazyHandIns, Message, Origin, Score
from autograder.course.score import late_share, score_of
from autograder.intake.names import moment, shown
from autograder.intake.tree import Entry

People = frozenset[str]


class AttributedHandIn(Protocol):
    """A hand-in as intake lists it, as it was read, or as it was graded."""

    @property
    def student(self) -> str: ...
    @property
    def origin(self) -> Origin: ...


class _Attempt(AttributedHandIn, Protocol):
    @property
    def notes(self) -> tuple[Message, ...]: ...


_T = TypeVar("_T", bound=_Attempt)


def people(handed: AttributedHandIn) -> People:
    """Return who handed it in, as something to compare."""
    ids = [student.id or student.email or student.name for student in handed.origin.students]
    return frozenset(
        unicodedata.normalize("NFKC", one).casefold() for one in ids or [handed.student]
    )


def numbered(entries: Sequence[Entry]) -> list[Entry]:
    """The entries with ``origin.attempt`` counted where only times tell the order."""
    known = dict(enumerate(entries))
    for places in _by_people(entries).values():
        group = [entries[place] for place in places]
        times = _times(group)
        if len(group) > 1 and times is not None and len({e.origin.attempt for e in group}) == 1:
            order = sorted(set(times))
            for place, time in zip(places, times, strict=True):
                origin = replace(entries[place].origin, attempt=1 + order.index(time))
                known[place] = replace(entries[place], origin=origin)
    return list(known.values())


def last(entries: Iterable[Entry]) -> list[Entry]:
    """Per person the last attempt, sorted by id, with a note how many were set aside.

    Where neither numbers nor times of the course system tell which is the last, all are kept
    and say so: a person has to choose. The same holds for somebody who is in two groups.
    """
    listed = list(entries)
    kept: list[Entry] = []
    for places in _by_people(listed).values():
        group = [listed[place] for place in places]
        latest = _latest(group)
        values = {"attempt": latest[0].origin.attempt, "count": len(group) - len(latest)}
        note = Message("intake.last_attempt", values) if values["count"] else None
        if len(latest) == 1:
            kept.append(_restored(latest[0], group, note) if note else latest[0])
        else:
            kept += [_with_note(_with_note(one, note), _twice(one, latest)) for one in latest]
    return sorted(_in_two_groups(kept), key=lambda one: one.student)


def best(lab: Lab, hand_ins: Sequence[HandIn]) -> Sequence[HandIn]:
    """Per person the graded attempt with the most points that count, the later of equal ones.

    Whoever decides on single checks decides on what was chosen: give it records without overrides.

    A note says which attempt counted. Where points that are still to be decided could change
    the choice, a mark sends the person's hand-in to a human.

    Hand-ins are looked at once, one by one; what is chosen is read again when it is asked for.
    """
    heads: list[HandIn] = []  # what tells whose and which attempt it is, without the results
    points: dict[str, Score] = {}
    for hand_in in hand_ins:
        heads.append(replace(hand_in, results=(), findings=(), digests={}))
        points[hand_in.student] = score_of(lab, hand_in)
    at = {head.student: place for place, head in enumerate(heads)}
    kept: list[HandIn] = []
    from_place: list[int] = []
    for places in _by_people(heads).values():
        group = [heads[place] for place in places]
        if len(group) == 1:
            kept += group
            from_place += places
            continue
        ordered = _in_order(group)
        scores = [points[one.student] for one in ordered]
        possible = [score.earned + score.undecided for score in scores]
        finals = [
            score.earned - late_share(score.earned, one)
            for one, score in zip(ordered, scores, strict=True)
        ]
        top = max(range(len(ordered)), key=lambda place: (finals[place], place))
        values: dict[str, Any] = {
            "name": ordered[top].origin.name,
            "attempt": ordered[top].origin.attempt,
            "count": len(group),
            "earned": finals[top],
        }
        chosen = _restored(ordered[top], group, Message("intake.best_attempt", values))
        open_ones = [
            one.origin.name or one.student
            for place, (one, most) in enumerate(zip(ordered, possible, strict=True))
            if place != top and most - late_share(most, one) > finals[top]
        ]
        if open_ones:
            mark = Message("intake.attempt_undecided", {"names": ", ".join(open_ones)})
            chosen = replace(chosen, marks=(*chosen.marks, mark))
        kept.append(chosen)
        from_place.append(at[ordered[top].student])
    pairs = zip(_in_two_groups(kept), from_place, strict=True)
    return _ChosenHandIns(hand_ins, sorted(pairs, key=lambda pair: pair[0].student))


class _ChosenHandIns(LazyHandIns):
    """Hand-ins under the heads that they got, each read when it is looked at."""

    def __init__(self, hand_ins: Sequence[HandIn], heads: Sequence[tuple[HandIn, int]]) -> None:
        self._hand_ins, self._heads = hand_ins, heads

    def __len__(self) -> int:
        return len(self._heads)

    def _at(self, place: int) -> HandIn:
        head, from_place = self._heads[place]
        whole = self._hand_ins[from_place]
        return replace(whole, student=head.student, notes=head.notes, marks=head.marks)


def _by_people(handed: Sequence[AttributedHandIn]) -> Mapping[People, list[int]]:
    groups: dict[People, list[int]] = {}
    for place, one in enumerate(handed):
        groups.setdefault(people(one), []).append(place)
    return groups


def _times(group: Sequence[AttributedHandIn]) -> list[datetime] | None:
    """Return when each was handed in; None unless all say so in a way that can be compared."""
    times = [moment(one.origin.submitted_at) for one in group]
    known = [time for time in times if time is not None]
    zones = {time.utcoffset() is None for time in known}
    return known if len(known) == len(group) and len(zones) == 1 else None


def _latest(group: Sequence[_T]) -> list[_T]:
    """The last by attempt, else by time; all that may be it, where that is not known."""
    most = max(one.origin.attempt for one in group)
    latest = [one for one in group if one.origin.attempt == most]
    times = _times(latest)
    if len(latest) > 1 and times is not None:
        latest = [one for one, time in zip(latest, times, strict=True) if time == max(times)]
    return latest


def _in_order(group: Sequence[_T]) -> list[_T]:
    times = _times(group)
    keys = [(one.origin.attempt, place) for place, one in enumerate(group)]
    if times is not None:
        order = sorted(range(len(group)), key=lambda place: (times[place], keys[place]))
    else:
        order = sorted(range(len(group)), key=lambda place: keys[place])
    return [group[place] for place in order]


def _restored(one: _T, group: Sequence[_T], note: Message) -> _T:
    """The attempt under the person's own id."""
    own = min((each.student for each in group), key=lambda student: (len(student), student))
    notes = tuple(
        each
        for each in one.notes
        if not (each.key == "intake.renamed" and each.values.get("used") == one.student != own)
    )
    return _changed(one, student=own, notes=(*notes, note))


def _changed(one: _T, **values: Any) -> _T:
    # Entries and hand-ins are dataclasses, which the protocol they share cannot say.
    return replace(one, **values)  # type: ignore[type-var]


def _with_note(one: _T, note: Message | None) -> _T:
    """The note is said once, however often a class is put together."""
    known = note is None or note in one.notes
    return one if known else _changed(one, notes=(*one.notes, note))


def _twice(one: Entry, group: Sequence[Entry]) -> Message | None:
    others = [each.origin.name or each.student for each in group if each is not one]
    if not others:
        return None
    who = ", ".join(shown(student.id) for student in one.origin.students) or one.student
    return Message("intake.same_student", {"who": who, "others": ", ".join(others)})


def _in_two_groups(kept: Sequence[_T]) -> list[_T]:
    """Note on hand-ins that share some, but not all, of their students."""
    holding: dict[str, list[int]] = {}
    for place, one in enumerate(kept):
        for person in people(one):
            holding.setdefault(person, []).append(place)
    noted = list(kept)
    for person, places in sorted(holding.items()):
        if len({people(kept[place]) for place in places}) > 1:
            for place in places:
                others = [kept[p].origin.name or kept[p].student for p in places if p != place]
                values = {"who": shown(person), "others": ", ".join(others)}
                noted[place] = _with_note(noted[place], Message("intake.same_student", values))
    return noted

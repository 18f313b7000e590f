"""Which of several hand-ins of one person counts, and that none is lost in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course.late import Lateness
from autograder.course.messages import render
from autograder.course.records import (
    Check,
    CheckResult,
    Exercise,
    HandIn,
    Lab,
    Limits,
    Origin,
    Outcome,
    Student,
    Text,
)
from autograder.course.score import needs_human
from autograder.intake import attempts
from autograder.intake.listing import find
from autograder.intake.names import safe_id
from autograder.intake.reading import read
from autograder.intake.tree import Entry
from tests.archives import GOOD, LAB, RIGHT, keys, laid, under, zipped

PATTERN = r"^(?P<student_id>\w+?)_(?P<timestamp>\d{8})?(?:try(?P<attempt>\d+))?"
TITLE = Text("x", "x")
CHECKS = tuple(Check(name, "e", "shape", points, TITLE) for name, points in (("a", 60), ("b", 40)))
GRADED = Lab(
    "lab", Path("lab"), TITLE, (), (), (), Limits(), (Exercise("e", "f", TITLE, TITLE, CHECKS),)
)


def last(tmp_path: Path, *names: str, pattern: str | None = PATTERN) -> dict[str, Entry]:
    files = {key: data for name in names for key, data in under(name).items()}
    return {e.student: e for e in attempts.last(find(laid(tmp_path / "c", files), LAB, pattern))}


def one(student: str, who: str, a: Outcome, b: Outcome, **origin: object) -> HandIn:
    results = (CheckResult("a", a), CheckResult("b", b))
    students = tuple(Student(part) for part in who.split("+"))
    told = replace(Origin(name=f"from {student}", students=students), **origin)
    return HandIn(student, results, origin=told)


PASS, FAIL, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.NOT_GRADED


# The last


def test_the_last_by_time_keeps_the_persons_own_id(tmp_path: Path) -> None:
    kept = last(tmp_path, "ann_20250103", "ann_20250101", "ann_20250102", "bob_20250101")
    assert list(kept) == ["ann", "bob"]
    assert kept["ann"].origin.name == "ann_20250103"
    assert kept["ann"].origin.attempt == 3
    assert keys(kept["ann"].notes) == ["last_attempt"]
    assert "set aside: 2" in render(kept["ann"].notes[0], "en")
    assert kept["bob"].notes == ()
    assert read(kept["ann"], LAB).files == RIGHT


def test_the_last_by_number(tmp_path: Path) -> None:
    kept = last(tmp_path, "ann_try2", "ann_try10", "ann_try9")
    assert [(name, one.origin.name) for name, one in kept.items()] == [("ann", "ann_try10")]


def test_without_an_order_all_are_kept_and_say_so(tmp_path: Path) -> None:
    files = {**under("2024001_张伟_lab2"), "张伟_2024001_final.zip": zipped(GOOD), **under("bob")}
    entries = find(laid(tmp_path / "c", files), LAB)
    kept = attempts.last(entries)
    assert [entry.student for entry in kept] == ["2024001_张伟", "2024001_张伟-2", "bob"]
    assert keys(kept[0].notes) == ["same_student"]
    assert "张伟_2024001_final.zip" in render(kept[0].notes[0], "en")
    assert keys(kept[1].notes) == ["renamed", "same_student"]
    assert "2024001_张伟_lab2" in render(kept[1].notes[1], "zh")
    assert kept[2].notes == ()


def test_a_folder_and_a_zip_of_one_name_are_the_same_student(tmp_path: Path) -> None:
    source = laid(tmp_path / "c", {**under("Ann"), "ann.zip": zipped(GOOD)})
    kept = attempts.last(find(source, LAB))
    assert [entry.student for entry in kept] == ["Ann", "ann-2"]
    assert all("same_student" in keys(entry.notes) for entry in kept)


@pytest.mark.parametrize(
    "names",
    [
        ("ann_20250101", "ann_x"),  # one has no time
        ("ann_20250101_a", "ann_20250101_b"),  # the same time
    ],
)
def test_times_that_decide_nothing(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert len(last(tmp_path, *names)) == 2


def test_of_a_tie_at_the_end_only_the_older_is_set_aside(tmp_path: Path) -> None:
    kept = last(tmp_path, "ann_20250101", "ann_20250102_a", "ann_20250102_b")
    assert sorted(one.origin.name for one in kept.values()) == ["ann_20250102_a", "ann_20250102_b"]
    for one in kept.values():
        assert keys(one.notes)[-2:] == ["last_attempt", "same_student"]
        assert "set aside: 1" in render(one.notes[-2], "en")


def test_times_with_and_without_a_zone_are_not_compared() -> None:
    def entry(name: str, time: str) -> Entry:
        return Entry(name, Path(name), origin=Origin(name, (Student("ann"),), time))

    both = [entry("ann", "2025-01-01T00:00:00"), entry("ann-2", "2025-01-02T00:00:00+00:00")]
    assert len(attempts.last(both)) == 2
    assert len(attempts.last([both[0], entry("ann-2", "2025-01-02T00:00:00")])) == 1


def test_a_group_is_the_set_of_its_members() -> None:
    def entry(name: str, who: str, number: int) -> Entry:
        students = tuple(Student(part) for part in who.split("+"))
        return Entry(name, Path(name), origin=Origin(name, students, attempt=number))

    kept = attempts.last([entry("x", "ann+bob", 1), entry("y", "BOB+ann", 2), entry("z", "cat", 1)])
    assert [(one.student, one.origin.name) for one in kept] == [("x", "y"), ("z", "z")]
    overlapping = attempts.last([entry("x", "ann+bob", 1), entry("y", "ann", 2)])
    assert [keys(one.notes) for one in overlapping] == [["same_student"], ["same_student"]]


def test_ids_of_attempts_are_safe_and_come_back(tmp_path: Path) -> None:
    names = [f"li wei_{20250100 + day}" for day in range(1, 13)]
    files = {key: data for name in names for key, data in under(name).items()}
    pattern = r"^(?P<student_id>[^_]+)_(?P<timestamp>\d+)"
    entries = find(laid(tmp_path / "c", files), LAB, pattern)
    ids = [entry.student for entry in entries]
    assert len(set(ids)) == 12
    assert all(safe_id(student) == student for student in ids)
    assert set(ids) == {"li_wei", *(f"li_wei-{number}" for number in range(2, 13))}
    (kept,) = attempts.last(entries)
    assert (kept.student, kept.origin.attempt) == ("li_wei", 12)
    assert keys(kept.notes) == ["last_attempt"]  # no more talk of li_wei-12


# The best


def test_the_best_counts_and_gets_the_own_id() -> None:
    graded = [
        one("ann", "ann", FAIL, PASS, attempt=1),
        one("ann-2", "ann", PASS, FAIL, attempt=2),
        one("ann-3", "ann", FAIL, FAIL, attempt=3),
        one("bob", "bob", FAIL, FAIL),
    ]
    kept = {hand_in.student: hand_in for hand_in in attempts.best(GRADED, graded)}
    assert list(kept) == ["ann", "bob"]
    assert kept["ann"].origin.attempt == 2
    assert keys(kept["ann"].notes) == ["best_attempt"]
    text = render(kept["ann"].notes[0], "en")
    assert "of 3 attempts, number 2 (from ann-2) counts, with 60 points" in text
    assert kept["bob"].notes == ()
    assert not any(needs_human(GRADED, hand_in) for hand_in in kept.values())


def test_of_equal_ones_the_last_counts() -> None:
    graded = [one(f"ann-{n}", "ann", PASS, FAIL, attempt=n) for n in (3, 2)]
    (kept,) = attempts.best(GRADED, [*graded, one("ann", "ann", PASS, FAIL, attempt=1)])
    assert (kept.student, kept.origin.attempt) == ("ann", 3)
    times = {"ann": "2025-01-02T00:00:00", "ann-2": "2025-01-01T00:00:00"}
    graded = [one(name, "ann", PASS, FAIL, submitted_at=time) for name, time in times.items()]
    (kept,) = attempts.best(GRADED, graded)
    assert kept.origin.submitted_at == "2025-01-02T00:00:00"


def test_what_is_not_graded_does_not_lose_in_silence() -> None:
    graded = [one("ann", "ann", PASS, FAIL, attempt=1), one("ann-2", "ann", OPEN, PASS, attempt=2)]
    (kept,) = attempts.best(GRADED, graded)
    assert kept.origin.attempt == 1
    assert keys(kept.marks) == ["attempt_undecided"]
    assert "from ann-2" in render(kept.marks[0], "en")
    assert needs_human(GRADED, kept)
    # Open points that can change nothing are nobody's business.
    graded = [one("ann", "ann", PASS, FAIL, attempt=1), one("ann-2", "ann", FAIL, OPEN, attempt=2)]
    (kept,) = attempts.best(GRADED, graded)
    assert kept.marks == ()


def test_the_best_is_the_one_whose_points_count_most() -> None:
    """60 in time beat 100 that are too late, and open points too late do not open the question."""
    late = Lateness("", days=5, percent=50)
    graded = [
        one("ann", "ann", PASS, FAIL, attempt=1),
        replace(one("ann-2", "ann", PASS, PASS, attempt=2), lateness=late),
        replace(one("ann-3", "ann", PASS, OPEN, attempt=3), lateness=late),
    ]
    (kept,) = attempts.best(GRADED, graded)
    assert (kept.origin.attempt, kept.marks) == (1, ())
    assert "with 60 points" in render(kept.notes[0], "en")


def test_best_keeps_who_stands_alone() -> None:
    graded = [one("ann", "ann", PASS, PASS), one("pair", "ann+bob", FAIL, FAIL)]
    kept: Mapping[str, HandIn] = {one.student: one for one in attempts.best(GRADED, graded)}
    assert list(kept) == ["ann", "pair"]
    assert all(keys(hand_in.notes) == ["same_student"] for hand_in in kept.values())

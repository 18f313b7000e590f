"""``overrides.toml``: what it may say, and what is told when it says something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course.late import Lateness
from autograder.course.records import (
    CheckResult,
    ClassRecord,
    HandIn,
    Isolation,
    Lab,
    Message,
    Origin,
    Outcome,
    Override,
    Score,
)
from autograder.course.score import needs_human, score_of
from autograder.grading import overrides
from autograder.grading.overrides import OverrideError
from autograder.grading.review_list import ReviewList
from autograder.report import write
from tests import tiny_lab

GOOD = {"student": '"alice"', "check": '"test_two"', "points": "7", "reason": '"a"', "by": '"b"'}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return tiny_lab.build(tmp_path_factory.mktemp("labs") / "lab9_doubling")


def entry(**changed: str | None) -> str:
    lines = [f"{key} = {value}" for key, value in (GOOD | changed).items() if value is not None]
    return "\n".join(["[[override]]", *lines, ""])


def test_an_entry_decides_about_one_check_of_one_student(tmp_path: Path, lab: Lab) -> None:
    path = tmp_path / "overrides.toml"
    path.write_text(entry() + entry(check='"test_one"', points="0"), encoding="utf-8")
    found = overrides.read(path, lab)
    assert found[0] == Override("alice", "test_two", 7, "a", "b") and len(found) == 2
    passed = tuple(CheckResult(c.name, Outcome.PASSED) for c in lab.checks)
    alice = overrides.applied(HandIn("alice", passed), found)
    bob = overrides.applied(HandIn("bob", passed, overrides=found), found)
    assert (score_of(lab, alice).earned, score_of(lab, bob).earned) == (87, 100)


def test_halves_exercises_whole_hand_ins_bonus_and_penalty(tmp_path: Path, lab: Lab) -> None:
    passed = tuple(CheckResult(c.name, Outcome.PASSED) for c in lab.checks)

    def scored(*entries: str, exercise: str | None = None) -> float:
        path = tmp_path / "overrides.toml"
        path.write_text("".join(entries), encoding="utf-8")
        alice = overrides.applied(HandIn("alice", passed), overrides.read(path, lab))
        return score_of(lab, alice, exercise).earned

    whole = {"check": None}
    assert scored(entry(points="2.5")) == 92.5
    many = entry(**whole, exercise='"lab9.many"', points="30.5")
    assert scored(many) == 70.5 and scored(many, exercise="lab9.many") == 30.5
    assert scored(many, exercise="lab9.side") == 20
    assert scored(entry(**whole, points="12")) == 12
    assert scored(entry(**whole, points=None, bonus="3.5")) == 103.5
    assert scored(entry(points=None, penalty="4")) == 96
    assert scored(entry(points=None, penalty="4"), exercise="lab9.many") == 56
    assert scored(many, entry(**whole, points=None, penalty="100")) == 0
    assert type(scored(entry(points="2.0"))) is int  # shown as it is given: 92, not 92.0


def test_what_a_person_decides_as_a_whole_is_no_longer_open(lab: Lab) -> None:
    open_ones = tuple(CheckResult(c.name, Outcome.NOT_GRADED) for c in lab.checks)
    record = HandIn("alice", open_ones, marks=(Message("check.unread"),))
    whole = Override("alice", "", 60, "read on paper", "b")
    decided = replace(record, overrides=(whole,))
    assert score_of(lab, decided) == Score(60, 100, 100)
    assert needs_human(lab, record) and not needs_human(lab, decided)
    one = Override("alice", "", 20, "a", "b", exercise="lab9.side")
    assert score_of(lab, replace(record, overrides=(one,))) == Score(20, 20, 100)


def test_who_was_looked_at_needs_nobody(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    passed = tuple(CheckResult(c.name, Outcome.PASSED) for c in lab.checks)
    late = Lateness("2026-10-12T23:59:00+08:00", days=None, why="no_time")
    record = HandIn("alice", passed, marks=(Message("check.unread"),), lateness=late)
    record = replace(record, origin=Origin(late=True))
    seen = replace(record, overrides=(Override("alice", "", None, "a", "b", looked_at=True),))
    for hand_in, status in ((record, 1), (seen, 0)):
        human = ReviewList(lab)
        human.take(hand_in)
        assert human.said("en") == status and needs_human(lab, hand_in) is bool(status)
        row = write.scores(ClassRecord(lab, Isolation("", (), ""), {}, (hand_in,)))
        assert ("for a human" in row) is bool(status)
    capsys.readouterr()
    open_one = CheckResult(lab.checks[0].name, Outcome.NOT_GRADED)
    human = ReviewList(lab)
    human.take(replace(seen, results=(open_one, *passed[1:])))
    assert human.said("en") == 1  # looking gives no points: they are still to be decided


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030", "utf-16"])
def test_a_csv_is_filled_in_beside_the_toml(tmp_path: Path, lab: Lab, encoding: str) -> None:
    path = tmp_path / "overrides.toml"
    path.write_text(entry(), encoding="utf-8")
    head = "student;check;title;most;points;bonus;looked_at;reason;by\n"
    rows = "王伟;test_two;a title;10;2,5;;;好;李\nbo;;;;;1;是;a;b\nzoe;test_two;t;10;;;;;\n"
    rows += "".join(f"zoe;test_two;t;10;;;{no};;\n" for no in ("FALSE", "no", "0", "否"))
    (tmp_path / "overrides.csv").write_bytes((head + rows).encode(encoding))
    assert overrides.read(path, lab)[1:] == (
        Override("王伟", "test_two", 2.5, "好", "李"),
        Override("bo", "", None, "a", "b", bonus=1, looked_at=True),
    )
    for row, words in (
        ("alice;test_two;;;7;;;a;b\n", "line 2: test_two of alice is decided twice"),
        ("bo;test_two;;;many;;;a;b\n", "line 2: points is 'many', expected a number"),
        ("bo;test_two;;;7;;;;b\n", "line 2: reason is missing"),
        ("bo;test_two;;;2;5;;oral;Li;x\n", "line 2: 10 cells below 9 columns; put what holds"),
        ("bo;test_two;;;7;;;;b;;\n", "line 2: reason is missing"),
    ):
        (tmp_path / "overrides.csv").write_text(head + row, encoding="utf-8")
        with pytest.raises(OverrideError, match=words):
            overrides.read(path, lab)


def test_a_decision_for_nobody_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    passed = tuple(CheckResult(c.name, Outcome.PASSED) for c in lab.checks)
    decided = [Override(who, "test_two", 7, "a", "b") for who in ("zoe", "bob", "alice")]
    human = ReviewList(lab, decided)
    human.take(HandIn("bob", passed))
    assert human.said("en") == 1 and "alice, zoe" in capsys.readouterr().err
    for name in ("alice", "zoe"):
        human.take(HandIn(name, passed))
    assert human.said("en") == 0 and capsys.readouterr().err == ""


def test_no_file_means_no_overrides(tmp_path: Path, lab: Lab) -> None:
    assert overrides.read(tmp_path / "none.toml", lab) == ()


BAD = {
    "not TOML": ("[[override", "not TOML"),
    "not UTF-8": (b"\xff\xfe[", "not TOML in UTF-8"),
    "another table": ("[[overide]]\n", "overide"),
    "one table": ("[override]\n", "[[override]]"),
    "no table": ("override = 3\n", "[[override]]"),
    "not tables": ("override = [3]\n", "override 1: expected a table"),
    "a key is missing": (entry(by=None), "override 1: by is missing"),
    "a key too much": (entry(grade="3"), "grade: not a key"),
    "an empty text": (entry(reason='" "'), "reason is ' ', expected a text"),
    "a third of a point": (entry(points="1.3"), "points is 1.3, expected whole or half points"),
    "no number": (entry(points="nan"), "points is nan, expected 0 to 10"),
    "a truth": (entry(points="true"), "expected a number of points"),
    "nothing decided": (entry(points=None), "give points, bonus, penalty or looked_at"),
    "a bonus below 0": (entry(points=None, bonus="-1"), "bonus is -1, expected 0 to 10"),
    "no truth": (entry(check=None, looked_at='"yes"'), "looked_at is 'yes', expected true"),
    "looked at a check": (entry(looked_at="true"), "looked_at is of the whole hand-in"),
    "two places": (entry(exercise='"lab9.many"'), "give check or exercise"),
    "no such exercise": (
        entry(check=None, exercise='"lab9.x"'),
        "'lab9.x' is not in lab9_doubling/lab.toml",
    ),
    "a check of an exercise": (
        entry() + entry(check=None, exercise='"lab9.many"'),
        "override 2: lab9.many of alice is decided twice",
    ),
    "a check of the whole": (
        entry() + entry(check=None),
        "override 2: the hand-in of alice is decided twice",
    ),
    "points below 0": (entry(points="-1"), "expected 0 to 10"),
    "points beyond": (entry(points="11"), "expected 0 to 10 for test_two"),
    "no such check": (entry(check='"test_x"'), "'test_x' is not in lab9_doubling/lab.toml"),
    "twice": (entry() + entry(points="1"), "override 2: test_two of alice is decided twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(tmp_path: Path, lab: Lab, name: str) -> None:
    content, words = BAD[name]
    path = tmp_path / "overrides.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(OverrideError) as caught:
        overrides.read(path, lab)
    assert words in str(caught.value) and str(path) in str(caught.value)

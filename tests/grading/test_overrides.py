"""``overrides.toml``: what it may say, and what is told when it says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.cli.human import ForAHuman
from autograder.course.records import CheckResult, HandIn, Lab, Outcome, Override
from autograder.course.score import score_of
from autograder.grading import overrides
from autograder.grading.overrides import OverrideError
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


def test_a_decision_for_nobody_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    passed = tuple(CheckResult(c.name, Outcome.PASSED) for c in lab.checks)
    decided = [Override(who, "test_two", 7, "a", "b") for who in ("zoe", "bob", "alice")]
    human = ForAHuman(lab, decided)
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
    "half a point": (entry(points="1.5"), "points is 1.5, expected a whole number"),
    "a truth": (entry(points="true"), "expected a whole number"),
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

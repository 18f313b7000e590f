"""Mistakes are named in another host and in company, and never by a wrong name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.grading.prepare import hidden_cases
from tests.proof import other
from tests.proof.combined import Judge, Judged, drawn, graded
from tests.proof.naming import unnamed, wrongly_named
from tests.proof.subject import SUBJECTS, Subject

LAB2 = SUBJECTS["lab2"]


# All of them for every lab: make mutants.
@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


@pytest.fixture(scope="module")
def hidden(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    return hidden_cases(subject.lab.name, folder, b"yet another secret")


def in_another_host(folder: Path, sources: Mapping[str, dict[str, str]]) -> None:
    """At least 95 % are named, and none wrongly."""
    hidden = hidden_cases(LAB2.lab.name, folder, b"the secret of another class")
    records = LAB2.grade(hidden, sources)
    true = {name: {other.listed()[name].class_name} for name in sources}
    assert list(wrongly_named(true, records)) == []
    assert len(unnamed(true, records)) <= 0.05 * len(sources), unnamed(true, records)


def test_a_slice_of_the_mistakes_is_named_in_another_host(tmp_path: Path) -> None:
    sources = {mistake.id: mistake.sources for mistake in other.mistakes()[::6]}
    assert len(sources) >= 25
    in_another_host(tmp_path, sources)


@pytest.mark.slow
def test_every_mistake_is_named_in_another_host(tmp_path: Path) -> None:
    in_another_host(tmp_path, {mistake.id: mistake.sources for mistake in other.mistakes()})


def combined(subject: Subject, hidden: Path, size: int, count: int) -> Judged:
    hand_ins = drawn(subject, size, count)
    return Judge(subject).judge(hand_ins, graded(subject, hidden, hand_ins))


def expect_pairs(judged: Judged) -> None:
    there = judged.count - len(judged.right)
    assert judged.wrong == ()
    assert len(judged.hit) >= 0.9 * there, judged.missed


@pytest.mark.parametrize("subject", ["lab2"], indirect=True, scope="module")
def test_a_few_pairs_of_mistakes_are_named(subject: Subject, hidden: Path) -> None:
    expect_pairs(combined(subject, hidden, 2, 30))


@pytest.mark.slow
def test_pairs_of_mistakes_are_named(subject: Subject, hidden: Path) -> None:
    expect_pairs(combined(subject, hidden, 2, 300 if subject is LAB2 else 80))


@pytest.mark.slow
def test_three_mistakes_at_once_get_no_wrong_name(subject: Subject, hidden: Path) -> None:
    assert combined(subject, hidden, 3, 200 if subject is LAB2 else 50).wrong == ()

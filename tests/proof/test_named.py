"""Mistakes are named in another host and in company, and never by a wrong name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autograder.authoring.recording import Recording
from tests.proof import other
from tests.proof.combined import Judge, Judged, drawn
from tests.proof.naming import unnamed, wrongly_named
from tests.proof.subject import SUBJECTS, Subject, each_lab

LAB2 = SUBJECTS["lab2"]
EVERY = 2  # one combination in so many, others at every commit; all of them by `make mutants`


def in_another_host(sources: Mapping[str, dict[str, str]]) -> None:
    """At least 95 % are named, and none wrongly."""
    records = LAB2.grade(sources)
    true = {name: {other.listed()[name].class_name} for name in sources}
    assert list(wrongly_named(true, records)) == []
    assert len(unnamed(true, records)) <= 0.05 * len(sources), unnamed(true, records)


def test_a_slice_of_the_mistakes_is_named_in_another_host() -> None:
    sources = {mistake.id: mistake.sources for mistake in other.mistakes()[::12]}
    assert len(sources) >= 12
    in_another_host(sources)


@pytest.mark.slow
def test_every_mistake_is_named_in_another_host() -> None:
    in_another_host({mistake.id: mistake.sources for mistake in other.mistakes()})


def combined(subject: Subject, size: int, count: int, every: int = EVERY) -> Judged:
    hand_ins = drawn(subject, size, count).part(Recording().turn(every), every)
    return Judge(subject).judge(hand_ins, subject.named(hand_ins.sources))


def expect_pairs(judged: Judged) -> None:
    there = judged.count - len(judged.right)
    assert judged.wrong == ()
    assert len(judged.hit) >= 0.9 * there, judged.missed


def test_a_few_pairs_of_mistakes_are_named() -> None:
    expect_pairs(combined(LAB2, 2, 30, every=1))


@pytest.mark.slow
@each_lab
def test_pairs_of_mistakes_are_named(subject: Subject) -> None:
    expect_pairs(combined(subject, 2, 300 if subject is LAB2 else 80))


@pytest.mark.slow
@each_lab
def test_three_mistakes_at_once_get_no_wrong_name(subject: Subject) -> None:
    assert combined(subject, 3, 200 if subject is LAB2 else 50).wrong == ()

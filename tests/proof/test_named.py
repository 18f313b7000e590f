"""Mistakes are named in other hosts and in company, and never by a wrong name."""

from __future__ import annotations

from math import ceil

import pytest

from autograder.authoring.recording import Recording
from tests.proof.combined import Judge, Judged, drawn
from tests.proof.hosts import HOSTS, listed
from tests.proof.naming import unnamed, wrongly_named
from tests.proof.subject import SUBJECTS, Subject, each_lab

LAB2 = SUBJECTS["lab2"]
EVERY = 2  # one combination in so many, others at every commit; all by `make mutants`


def in_other_hosts(turn: int, every: int) -> None:
    """All lose points in a right family, at least 97 % are named, and none wrongly."""
    known = listed()
    sources = {
        f"{host.name} {name}": host.mistakes[name]
        for host in HOSTS
        for name in [*host.mistakes][turn::every]
    }
    records, entries = LAB2.named(sources), {name: known[name.split()[1]] for name in sources}
    for name, entry in entries.items():
        lost = {LAB2.family[check] for check in LAB2.lost(records[name])}
        assert lost & set(entry.families), f"{name}: lost {lost}"
    true = {name: {entry.class_name} for name, entry in entries.items()}
    assert list(wrongly_named(true, records)) == []
    assert len(unnamed(true, records)) <= ceil(0.03 * len(sources)), unnamed(true, records)


def test_a_slice_of_the_mistakes_is_named_in_other_hosts() -> None:
    in_other_hosts(0, 36)


@pytest.mark.slow
def test_the_mistakes_are_named_in_other_hosts() -> None:
    in_other_hosts(Recording().turn(3), 3)


def combined(subject: Subject, size: int, count: int, every: int = EVERY) -> Judged:
    hand_ins = drawn(subject, size, count).part(Recording().turn(every), every)
    return Judge(subject).judge(hand_ins, subject.named(hand_ins.sources))


def expect_pairs(judged: Judged) -> None:
    there = judged.count - len(judged.right)
    assert judged.wrong == ()
    assert len(judged.hit) >= 0.95 * there, judged.missed


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

"""Slips are rightly named in any spelling, and experiments show nothing in what is right."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from autograder.authoring.recording import Recording
from autograder.checks.plan import collect
from autograder.judge import diagnose
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources
from tests.proof.spellings import faults, forms_of, host, slips, spellings
from tests.proof.subject import SUBJECTS, Subject, each_lab

EVERY = 2  # of each slip every other spelling, the others at another commit; all by `make mutants`


def test_every_slip_has_at_least_four_spellings() -> None:
    """Of lab 2's, at least 25 have; they were the first."""
    many = {name: [len(forms_of(slip)) >= 4 for slip in slips(name)] for name in SUBJECTS}
    assert sum(many.pop("lab2")) >= 25
    assert all(map(all, many.values())) and sum(map(len, many.values())) >= 25


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_lab
def test_slips_are_named_in_every_spelling(subject: Subject) -> None:
    written = spellings(subject, Recording().turn(EVERY), EVERY)
    graded = subject.named({name: one.files for name, one in written.items()})
    assert list(faults(subject, written, graded)) == []


def shown(subject: Subject, names: Iterable[str]) -> list[tuple[str, str, str]]:
    """What experiments show in right hand-ins: style, exercise, mistake."""
    plan, found = collect(subject.lab.folder), []
    for name in names:
        transport = LocalTransport(Sources(host(subject, name)))
        for exercise, experiments in plan.behaviours.items():
            for mistake, check_case in experiments.items():
                if diagnose._asked(check_case, transport)[1] is not False:
                    found.append((name, exercise, mistake))
        transport.close()
    return found


@each_lab
def test_no_experiment_shows_anything_in_what_is_right(subject: Subject) -> None:
    assert shown(subject, ("solution", *(style.name for style in subject.styles[::4]))) == []


@pytest.mark.slow
@each_lab
def test_no_experiment_shows_anything_in_any_right_style(subject: Subject) -> None:
    others = set(subject.styles) - set(subject.styles[::4])
    assert shown(subject, sorted(style.name for style in others)) == []

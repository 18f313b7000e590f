"""The other host is right, and its mistakes are the listed ones, number by number.

Every mistake is run in this process on the public cases, once in the reference solution and once
in the other host. Both must show the same of ``Qwen3Attention`` or ``mlp.py``; a public function
beside it may be right in the other host, whose attention does not call it. And somewhere both
must differ from right code. Only then does naming a mistake in the other host prove anything.
"""

from __future__ import annotations

from functools import cache

import pytest

from autograder.course.records import Outcome
from autograder.course.score import points_of
from autograder.diagnosis import misconceptions
from tests.proof import other
from tests.proof.observing import Seen, distance, distances, observe, twice
from tests.proof.subject import SUBJECTS

LAB = SUBJECTS["lab2"].lab
LISTED = other.listed()
MISTAKES = {mistake.id: mistake.sources for mistake in other.mistakes()}
REFERENCE = other.read(other.SOLUTION)
HOST = other.host()

# No two runs need be equal: only that the same call twice in one process gives two answers.
RANDOM = ("dropout_always_on", "mlp_dropout_always_on")
# Calls of which the numbers need not agree, and why.
APART = {
    "qk_norm_missing": (
        "attention_float16-",
        "without a norm scores pass 65504; the host scales before the product, the solution after",
    ),
}


@cache
def right(file: str) -> Seen:
    return observe(REFERENCE, file)


def faults_of(mistake: str, namesake: str = "") -> list[str]:
    """Why the mistake in the other host is not the listed one; empty if it is."""
    listed = LISTED[namesake or mistake]
    file = listed.file
    known = observe(misconceptions.apply(listed, REFERENCE), file)
    made = observe(MISTAKES[mistake], file)
    agreed, kept = distances(known, made), distances(right(file), made)
    excused = APART.get(mistake, ("nothing", ""))[0]
    faults = []
    for (name, number), far in agreed.items():
        inner = file == "attention.py" and not name.startswith("attention_")
        if far > 1 and not name.startswith(excused) and not (inner and kept[name, number] <= 1):
            faults.append(f"{mistake}: {name}, call {number}: {far:.3g} times the limit apart")
    if max(kept.values()) <= 2:
        faults.append(f"{mistake}: nothing shows it")
    return faults


def test_the_other_host_scores_100() -> None:
    (hand_in,) = SUBJECTS["lab2"].grade({"other": HOST}).values()
    assert points_of(LAB, hand_in.results).earned == 100
    assert {r.outcome for r in hand_in.results} <= {Outcome.PASSED, Outcome.NOT_GRADED}
    assert hand_in.marks == ()


@pytest.mark.slow
def test_every_mistake_loses_points_in_a_right_family() -> None:
    family = {check.name: check.family for check in LAB.checks if check.points}
    caught = {}
    for hand_in in SUBJECTS["lab2"].grade(MISTAKES).values():
        lost = {family.get(r.check, "") for r in hand_in.results if r.outcome is not Outcome.PASSED}
        caught[hand_in.student] = bool(lost & set(LISTED[hand_in.student].families))
    assert caught == dict.fromkeys(MISTAKES, True)


def test_the_other_host_shows_what_the_solution_shows() -> None:
    for file in other.FILES:
        assert max(distances(right(file), observe(HOST, file)).values()) <= 1


def test_the_list_covers_every_group() -> None:
    assert len(MISTAKES) >= 170
    groups = {entry.group for entry in LISTED.values()}
    assert {LISTED[mistake].group for mistake in MISTAKES} == groups


def test_a_mistake_stands_in_the_file_of_its_namesake() -> None:
    for mistake, sources in MISTAKES.items():
        changed = [file for file in other.FILES if sources[file] != HOST[file]]
        assert changed == [LISTED[mistake].file], mistake


@pytest.mark.parametrize("mistake", RANDOM)
def test_dropout_gives_two_answers_in_both_hosts(mistake: str) -> None:
    file = LISTED[mistake].file
    for sources in (misconceptions.apply(LISTED[mistake], REFERENCE), MISTAKES[mistake]):
        assert distance(*twice(sources, file), 1e-3) > 1
    assert distance(*twice(HOST, file), 1e-3) <= 1


CERTAIN = [mistake for mistake in MISTAKES if mistake not in RANDOM]


def test_a_slice_of_the_mistakes_are_the_listed_ones() -> None:
    assert [fault for mistake in CERTAIN[::6] for fault in faults_of(mistake)] == []


@pytest.mark.parametrize(
    ("mistake", "namesake"),
    [
        ("mask_polarity", "triangle_swapped"),
        ("norm_shared", "norms_swapped"),
        ("eps_hard_coded", "eps_left_at_default"),
        ("quick_gelu", "gelu"),
        ("cache_batch_forgotten", "cache_of_one_layer"),
    ],
)
def test_another_mistake_is_not_taken_for_it(mistake: str, namesake: str) -> None:
    assert faults_of(mistake, namesake) != []


@pytest.mark.slow
def test_every_mistake_is_the_listed_one() -> None:
    assert [fault for mistake in CERTAIN for fault in faults_of(mistake)] == []

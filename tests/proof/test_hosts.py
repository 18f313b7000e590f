"""Other hosts are right, and their mistakes are the listed ones, number by number.

Every mistake is run in this process on the public cases, once in the reference solution and once
in the other host. Both must show the same of ``Qwen3Attention`` or ``mlp.py``; a public function
beside it may be right in the other host, whose attention does not call it. And somewhere both
must differ from right code. Only then does naming a mistake in the other host prove anything.
"""

from __future__ import annotations

from functools import cache

import pytest

from autograder.authoring.recording import Recording
from autograder.diagnosis import misconceptions
from tests.proof.hosts import FILES, HOSTS, SOLUTION, Host, listed, read
from tests.proof.observing import Seen, distance, distances, observe, twice

LISTED = listed()
REFERENCE = read(SOLUTION)
FUNCTIONAL = next(host for host in HOSTS if host.name == "functional")

# No two runs need be equal: only that the same call twice in one process gives two answers.
RANDOM = ("dropout_always_on", "mlp_dropout_always_on")
# Calls of which the numbers need not agree, and why.
APART = {
    ("functional", "qk_norm_missing"): (
        "attention_float16-",
        "without a norm scores pass 65504; the host scales before the product, the solution after",
    ),
}
each_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)


@cache
def right(file: str) -> Seen:
    return observe(REFERENCE, file)


@cache
def known_of(mistake: str) -> Seen:
    entry = LISTED[mistake]
    return observe(misconceptions.apply(entry, REFERENCE), entry.file)


def faults_of(host: Host, mistake: str, namesake: str = "") -> list[str]:
    """Why the mistake in the other host is not the listed one; empty if it is."""
    known, file = known_of(namesake or mistake), LISTED[mistake].file
    made = observe(host.mistakes[mistake], file)
    agreed, kept = distances(known, made), distances(right(file), made)
    excused = APART.get((host.name, mistake), ("nothing", ""))[0]
    faults = []
    for (name, number), far in agreed.items():
        inner = file == "attention.py" and not name.startswith("attention_")
        if far > 1 and not name.startswith(excused) and not (inner and kept[name, number] <= 1):
            faults.append(f"{mistake}: {name}, call {number}: {far:.3g} times the limit apart")
    if max(kept.values()) <= 2:
        faults.append(f"{mistake}: nothing shows it")
    return faults


@each_host
def test_a_host_shows_what_the_solution_shows(host: Host) -> None:
    for file in FILES:
        assert max(distances(right(file), observe(host.sources, file)).values()) <= 1


@each_host
def test_the_list_covers_every_group(host: Host) -> None:
    assert len(host.mistakes) >= 170
    groups = {entry.group for entry in LISTED.values()}
    assert {LISTED[mistake].group for mistake in host.mistakes} == groups


@each_host
def test_a_mistake_stands_in_the_file_of_its_namesake(host: Host) -> None:
    for mistake, sources in host.mistakes.items():
        changed = [file for file in FILES if sources[file] != host.sources[file]]
        assert changed == [LISTED[mistake].file], mistake


@pytest.mark.parametrize("mistake", RANDOM)
@each_host
def test_dropout_gives_two_answers_in_both_hosts(host: Host, mistake: str) -> None:
    file = LISTED[mistake].file
    for sources in (misconceptions.apply(LISTED[mistake], REFERENCE), host.mistakes[mistake]):
        assert distance(*twice(sources, file), 1e-3) > 1
    assert distance(*twice(host.sources, file), 1e-3) <= 1


def expect_listed(host: Host, turn: int, every: int) -> None:
    certain = [mistake for mistake in host.mistakes if mistake not in RANDOM]
    assert [fault for mistake in certain[turn::every] for fault in faults_of(host, mistake)] == []


@each_host
def test_a_slice_of_the_mistakes_are_the_listed_ones(host: Host) -> None:
    expect_listed(host, 0, 18)


@pytest.mark.slow
@each_host
def test_the_mistakes_are_the_listed_ones(host: Host) -> None:
    """One in three; others at every commit."""
    expect_listed(host, Recording().turn(3), 3)


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
    assert faults_of(FUNCTIONAL, mistake, namesake) != []

"""Every entry of lab 6's catalogue patches its file, shows in the bank, and is no other's twin."""

from __future__ import annotations

from itertools import combinations

import pytest

from autograder.authoring.place import LabSources
from autograder.diagnosis import bank
from autograder.diagnosis.misconceptions import apply, load

PLACE = LabSources.find("6")
SOURCES = {f: (PLACE.solution / f).read_text(encoding="utf-8") for f in PLACE.lab.files}
CATALOGUE = load(PLACE.misconceptions, SOURCES)
BY_ID = {entry.id: entry for entry in CATALOGUE.entries}
BANK = bank.load(PLACE.fingerprints)


def test_the_list_is_long_enough() -> None:
    files = [entry.file for entry in CATALOGUE.entries]
    assert files.count("attention.py") >= 45
    assert files.count("mlp.py") >= 40
    assert sum(entry.group == "memory" for entry in CATALOGUE.entries) >= 7


@pytest.mark.parametrize("entry", BY_ID)
def test_only_the_named_file_changes(entry: str) -> None:
    patched = apply(BY_ID[entry], SOURCES)
    assert [f for f in SOURCES if patched[f] != SOURCES[f]] == [BY_ID[entry].file]
    compile(patched[BY_ID[entry].file], BY_ID[entry].file, "exec")


def test_every_mistake_shows_and_no_two_look_alike() -> None:
    shown = {name for prints in BANK.exercises.values() for (name,) in prints.mistakes}
    assert shown == set(CATALOGUE.classes)
    rows: dict[str, dict[str, list[int]]] = {name: {} for name in CATALOGUE.classes}
    for exercise, prints in BANK.exercises.items():
        for number, (name,) in enumerate(prints.mistakes):
            rows[name][exercise] = prints.rows[number].tolist()
    twins = [f"{a} = {b}" for a, b in combinations(rows, 2) if rows[a] == rows[b]]
    assert not twins


def test_costs_are_in_the_bank_by_what_is_said_of_them() -> None:
    forms = {form for prints in BANK.exercises.values() for form in prints.forms}
    said = {"grows, one float32", "grows, one bool", "grows, many", "over the cap"}
    assert said | {"works too much", "holds too much"} <= forms

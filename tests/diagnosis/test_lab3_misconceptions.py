"""Every entry of lab 3's catalogue is really a mistake, and no class is another's twin."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from autograder.diagnosis.misconceptions import apply
from tests.diagnosis.lab3_probes import BY_ID, CATALOGUE, PROBES, SOURCES, alike, observe


def texts(value: Any) -> list[str]:
    """Every error that probes of right code would show by name."""
    if isinstance(value, (tuple, list)):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) and value.endswith("Error") else []


def test_the_list_is_long_enough() -> None:
    files = [entry.file for entry in CATALOGUE.entries]
    assert files.count("attention.py") >= 75
    assert files.count("mlp.py") >= 15
    assert sum(entry.group == "KV cache" for entry in CATALOGUE.entries) >= 20


@pytest.mark.parametrize("file", PROBES)
def test_the_reference_passes_its_own_probes(file: str) -> None:
    for name, value in observe(file, None).items():
        assert texts(value) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("entry", BY_ID)
def test_a_mistake_can_be_seen(entry: str) -> None:
    file = BY_ID[entry].file
    assert not alike(observe(file, entry), observe(file, None))


@pytest.mark.parametrize("entry", BY_ID)
def test_only_the_named_file_changes(entry: str) -> None:
    patched = apply(BY_ID[entry], SOURCES)
    assert [f for f in SOURCES if patched[f] != SOURCES[f]] == [BY_ID[entry].file]


@pytest.mark.slow
def test_equal_outputs_share_a_class() -> None:
    """What the numbers cannot tell apart must not be named apart."""
    twins = [
        f"{a.id} = {b.id}"
        for a, b in combinations(CATALOGUE.entries, 2)
        if a.file == b.file
        and a.class_name != b.class_name
        and alike(observe(a.file, a.id), observe(b.file, b.id))
    ]
    assert not twins

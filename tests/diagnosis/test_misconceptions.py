"""Every entry of lab 2's catalogue is really a mistake, and no class is another's twin."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from torch import Tensor

from autograder.diagnosis.misconceptions import apply
from tests.diagnosis.lab2_probes import BY_ID, CATALOGUE, PROBES, SOURCES, alike, observe


def test_the_list_is_long_enough() -> None:
    files = [m.file for m in CATALOGUE.entries if m.group != "accounting"]
    assert files.count("attention.py") >= 55
    assert files.count("mlp.py") >= 14
    assert len(CATALOGUE.entries) - len(files) >= 6


def test_the_reference_passes_its_own_probes() -> None:
    """No probe raises on right code, or shows it something that is not finite."""

    def finite(value: Any) -> bool:
        if isinstance(value, tuple | list):
            return all(finite(v) for v in value)
        return bool(value.isfinite().all()) if isinstance(value, Tensor) else type(value) is int

    for file in PROBES:
        for name, value in observe(file, None).items():
            assert finite(value), f"{name}: {value}"


@pytest.mark.parametrize("entry", BY_ID)
def test_a_mistake_can_be_seen(entry: str) -> None:
    file = BY_ID[entry].file
    assert not alike(observe(file, entry), observe(file, None))


@pytest.mark.parametrize("entry", BY_ID)
def test_only_the_named_file_changes(entry: str) -> None:
    patched = apply(BY_ID[entry], SOURCES)
    assert [f for f in SOURCES if patched[f] != SOURCES[f]] == [BY_ID[entry].file]


def test_equal_outputs_share_a_class() -> None:
    """What the numbers cannot tell apart must not be named apart."""
    twins = []
    for a, b in combinations(CATALOGUE.entries, 2):
        if a.file != b.file or a.class_name == b.class_name:
            continue
        one, other = observe(a.file, a.id), observe(b.file, b.id)
        if any(isinstance(value, str) for value in (*one.values(), *other.values())):
            continue  # a crash has no numbers
        if alike(one, other):
            twins.append(f"{a.id} = {b.id}")
    assert not twins

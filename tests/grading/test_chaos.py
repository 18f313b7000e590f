"""A short ``make chaos``: kills of every kind of process, and nothing is lost or changed."""

from __future__ import annotations

import sys

import pytest

from tests import chaos


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_faults_lose_and_change_nothing() -> None:
    found = chaos.run(faults=40, seed=7)
    assert found.landed.total() >= 40
    assert min(found.landed[kind] for kind in chaos.KINDS) >= 8
    assert (found.lost, found.changed, found.left) == (0, 0, [])

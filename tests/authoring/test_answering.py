"""What our own solutions answer, written down for the banks: as a worker would answer it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from autograder.authoring.answers import traces_of
from autograder.checks.plan import collect
from autograder.course import labfile
from tests import tiny_lab


def test_answers_are_computed_as_in_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without oneDNN, whose bfloat16 differs; what runs in this process afterwards has it again."""
    before = torch.backends.mkldnn.enabled
    monkeypatch.setenv("PYTEST_ADDOPTS", "--of-another-plugin")  # has no business here
    plan = collect(tiny_lab.build(tmp_path / "lab9_doubling").folder)
    asking = tiny_lab.doing(other="import torch; return x * torch.backends.mkldnn.enabled")
    (item,) = traces_of(plan, asking)["lab9.other"].values()
    assert not item.values.any()
    assert torch.backends.mkldnn.enabled is before


def test_two_labs_are_collected_in_one_process() -> None:
    """Files of checks have the same names in several labs, and pytest knows modules by name."""
    found = sorted(labfile.LABS.glob("*/checks/test_mlp.py"))[:2]
    assert len(found) == 2
    for path in found:
        check_cases = [
            one for group in collect(path.parents[1]).check_cases.values() for one in group
        ]
        files = {Path(one.run.__code__.co_filename) for one in check_cases}
        assert path in files
        assert {file.parent for file in files} == {path.parent}

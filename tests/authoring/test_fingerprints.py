"""Banks of fingerprints: built from a list of mistakes, proved, and found stale."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.authoring import build, fingerprints, prove_lab
from autograder.authoring.answers import reference_of, sources_of
from autograder.authoring.place import LabSources
from autograder.checks.plan import collect
from autograder.diagnosis import bank
from autograder.diagnosis.misconceptions import TOLD

ROOT = Path(__file__).resolve().parents[2]
LAB = "lab2_qwen3_block"
KEPT = ("no_scale", "scale_inverted", "relu")


@pytest.fixture
def place(tmp_path: Path) -> LabSources:
    """A copy of the lab with three of its mistakes, and no banks."""
    ignore = shutil.ignore_patterns("__pycache__", "tiny_qwen3", "*.bank")
    for name in ("labs", "solutions"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    made = LabSources(tmp_path, LAB)
    text = made.misconceptions.read_text(encoding="utf-8")
    head, *entries = re.split(r"(?=^\[\[misconception\]\]$)", text, flags=re.M)
    kept = [entry for entry in entries if re.search(r'^id = "(.*)"$', entry, re.M)[1] in KEPT]
    section = re.findall(r"^\[\[section\]\]\n[^\[]*\[[^\]]*\][^\[]*", head, flags=re.M)[0]
    groups = ", ".join(sorted({re.search(r"^group = (.*)$", one, re.M)[1] for one in kept}))
    section = re.sub(r"groups = .*", f"groups = [{groups}]", section)
    made.misconceptions.write_text("".join((section, *kept)), encoding="utf-8")
    return made


@pytest.mark.slow
def test_banks_are_built_proved_and_found_stale(
    place: LabSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [line.split()[0] for line in build.banks(place)] == ["written", "written"]
    singles, pairs = bank.load(place.fingerprints), bank.load(place.pairs)
    assert set(singles.classes) == {*KEPT, *TOLD.values()}
    assert {c for p in singles.exercises.values() for c in p.mistakes} == {(n,) for n in KEPT}
    assert set(singles.courses) == {"lab2.attention", "lab2.mlp"}
    # Two scales stand in one line and cannot be combined; the other two never meet in an exercise.
    assert pairs.exercises == {}
    assert list(prove_lab.stale(place)) == []
    assert [line.split()[0] for line in build.banks(place)] == ["unchanged", "unchanged"]

    # A library that computes otherwise leaves all sources as they are.
    prints = singles.exercises["lab2.mlp"]
    other = bank.Bank(
        {"lab2.mlp": replace(prints, vectors=np.roll(prints.vectors, 1, axis=1))},
        singles.classes,
        singles.made_of,
    )
    place.fingerprints.write_bytes(bank.dump(other))
    assert ["relu answers otherwise now" in found for found in prove_lab.stale(place)] == [True]

    def reworded(path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    # Words, points, titles and docstrings ask nothing again.
    place.fingerprints.write_bytes(bank.dump(singles))
    monkeypatch.setattr(fingerprints, "build", None)
    reworded(place.folder / "lab.toml", 'family = "MLP"', 'family = "shape"')
    reworded(place.folder / "checks" / "test_mlp.py", "能运行", "能够运行")
    reworded(place.folder / "checks" / "test_mlp.py", "nothing may be left", "nothing is left")
    reworded(place.solution / "mlp.py", '"""``down_proj', '"""Or: ``down_proj')
    assert list(prove_lab.stale(place)) == []
    reworded(place.misconceptions, 'hint.en = "', 'hint.en = "Now: ')
    assert any("other words" in found for found in prove_lab.stale(place))
    assert [line.split()[0] for line in build.banks(place)] == ["written", "unchanged"]
    assert list(prove_lab.stale(place)) == []

    # Nor do other stages: what mistakes answer stays what it was.
    reworded(place.solution / "stages.py", '"""The stages of attention', '"""Attention')
    assert any("not made of" in found for found in prove_lab.stale(place))
    assert [line.split()[0] for line in build.banks(place)] == ["written", "unchanged"]
    assert list(prove_lab.stale(place)) == []

    reworded(place.folder / "checks" / "test_mlp.py", "student.", "student .")
    assert not fingerprints.is_made_of(place.fingerprints, fingerprints.made_of_singles(place))
    assert any("not made of" in found for found in prove_lab.stale(place))


@pytest.mark.slow
def test_what_right_styles_answer_otherwise_is_left_open() -> None:
    """In which order the halves of rotated q and k lie is free; so is the last bit of frequencies.

    At positions near 40,000 that bit is more than a rounding of the tables.
    """
    place = LabSources.find("2")
    plan = collect(place.folder)
    reference, random = reference_of(plan, sources_of(place))
    found = fingerprints.left_open(place, plan, reference) - random
    assert found
    free = ("test_apply_rotary_", "test_rotary_far/tables_farthest-")
    assert all(key.startswith(free) for key in found)

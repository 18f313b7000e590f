"""The author's guide: what it shows works as it stands there, and what it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from autograder.course import labfile
from autograder.diagnosis.misconceptions import apply, load
from tests.diagnosis.lab2_probes import (
    BY_ID,
    CATALOGUE,
    FOLDER,
    SOURCES,
    alike,
    observe,
    observe_text,
)

GUIDE = (labfile.ROOT / "autograder" / "guides" / "authors.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", GUIDE, flags=re.DOTALL)
(ENTRY,) = (block for block in BLOCKS if block.startswith("[[misconception]]"))
(CLASS,) = (block for block in BLOCKS if block.startswith("[[class]]"))


def test_the_entry_of_the_guide_can_be_added_and_is_a_mistake_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "misconceptions.toml"
    path.write_text(
        (FOLDER / "misconceptions.toml").read_text(encoding="utf-8") + "\n" + ENTRY,
        encoding="utf-8",
    )
    added = load(path, SOURCES).entries[-1]
    assert added.id not in BY_ID
    seen = observe_text(added.file, apply(added, SOURCES)[added.file])
    assert not alike(seen, observe(added.file, None))
    twins = [e.id for e in CATALOGUE.entries if e.file == added.file and e.group == added.group]
    assert not [name for name in twins if alike(seen, observe(added.file, name))]


def test_the_class_of_the_guide_is_that_of_lab_2() -> None:
    shown = re.findall(r'^(id|name\.en) = "(.*)"$', CLASS, flags=re.MULTILINE)
    assert [key for key, _ in shown] == ["id", "name.en"]
    assert CATALOGUE.classes[shown[0][1]].name.en == shown[1][1]


def test_the_way_of_a_hand_in_names_what_is_there_and_is_short() -> None:
    way = GUIDE.split("## The way of a hand-in\n")[1].split("\n## ")[0]
    steps = re.findall(r"`(\w+/\w+\.py)`: `(\w+)`", way)
    assert len(steps) > 30 and len({path for path, _ in steps}) <= 40
    for path, name in steps:
        tree = ast.parse((labfile.ROOT / "autograder" / path).read_text(encoding="utf-8"))
        kinds = (ast.FunctionDef, ast.ClassDef)
        assert name in {x.name for x in tree.body if isinstance(x, kinds)}, (path, name)

"""An overlay and the solution make one file; no overlay repeats what the solution has."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.styles import MARKER, SOLUTIONS, composed, text_of, texts_of
from tests.styles.solutions import STYLES

SOLUTION = '''"""The solution."""

from __future__ import annotations

import os

# The least.
LEAST = 1


def least():
    return LEAST


class Base:
    @property
    def kept(self):
        return "kept"

    # Old words.
    def replaced(self):
        return "old"


class Other(Base):
    size = 1

    def gone(self):
        return 1


END = os.sep
'''
OVERLAY = f'''{MARKER}"""What differs."""

import math

# The most.
LEAST = 2


def helper():
    return "new"


class Base:
    def replaced(self):
        return helper() + self.more()

    def more(self):
        return "er"


class Other(dict):
    size = math.floor(2.5)


def last():
    return least()
'''
OVERLAYS = [p for p in sorted(STYLES.glob("*/*/*.py")) if p.read_text("utf-8").startswith(MARKER)]


def test_definitions_are_replaced_by_name_and_members_by_theirs() -> None:
    text = composed(SOLUTION, OVERLAY)
    found: dict[str, Any] = {}
    exec(text, found)
    assert found["last"]() == found["LEAST"] == 2
    assert (found["Base"]().kept, found["Base"]().replaced()) == ("kept", "newer")
    assert found["Other"].__base__ is dict  # another header: the whole class
    assert not hasattr(found["Other"], "gone")
    assert found["Other"].size == 2
    assert not any(old in text for old in ("The least", "Old words", "What differs"))
    assert text.index("import os") < text.index("import math") < text.index("# The most.")
    assert text.index("def helper") < text.index("class Base") < text.index("END =")


def test_a_file_without_the_marker_stands_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "lab4" / "own"
    folder.mkdir(parents=True)
    (folder / "mlp.py").write_text("whole = True\n", encoding="utf-8")
    solution = SOLUTIONS / "lab4_tinyllm"
    assert texts_of(folder, ("mlp.py", "model.py")) == {
        "mlp.py": "whole = True\n",
        "model.py": (solution / "model.py").read_text(encoding="utf-8"),
    }
    assert text_of(solution, "model.py") == texts_of(folder, ("model.py",))["model.py"]


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: "/".join(path.parts[-3:]))
def test_an_overlay_holds_only_what_differs(path: Path) -> None:
    (solution,) = SOLUTIONS.glob(f"{path.parts[-3]}_*")
    old, new = (
        {ast.dump(node): node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for tree in (ast.parse(p.read_text(encoding="utf-8")) for p in (solution / path.name, path))
    )
    assert [name for text, name in new.items() if text in old] == []

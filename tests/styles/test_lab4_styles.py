"""The right solutions of lab 4 are really different; that each scores 100 is proved elsewhere."""

from __future__ import annotations

import ast

from autograder.authoring.styles import texts_of
from autograder.course import labfile
from tests.proof.subject import SUBJECTS
from tests.styles import solutions

STYLES = solutions.styles("lab4")
SUBJECT = SUBJECTS["lab4"]


def bodies(text: str) -> set[str]:
    """Every function without its docstring, as normalised text."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            found.add(f"{node.name}: " + "; ".join(map(ast.unparse, body)))
    return found


def test_there_are_enough_styles_and_each_has_functions_of_its_own() -> None:
    assert len(STYLES) >= 8
    texts = {"solution": SUBJECT.sources}
    for name in STYLES:
        texts[name] = texts_of(solutions.STYLES / "lab4" / name, SUBJECT.lab.files)
    written = {name: bodies(t["model.py"]) | bodies(t["attention.py"]) for name, t in texts.items()}
    for name, mine in written.items():
        others = set().union(*(theirs for other, theirs in written.items() if other != name))
        assert len(mine - others) >= (0 if name == "solution" else 2), name
    assert labfile.find_lab("4") == SUBJECT.lab.folder

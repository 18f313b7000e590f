"""Promises about what a lab gives and forbids."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

from autograder.authoring.place import Place, read

GIVEN = "# GIVEN"  # stands in a function that the stub hands out whole, on purpose


def told_bodies(place: Place) -> Iterator[str]:
    """Functions of a stub that hold more than a TODO: a marker was lost around their body."""
    for name in place.lab.files:
        path = place.folder / name
        text = read(path)
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if GIVEN in (ast.get_source_segment(text, node) or ""):
                continue
            if any(not _is_todo(statement) for statement in node.body):
                yield (
                    f"{place.shown(path)}:{node.lineno}: {node.name} shows its body; put it "
                    f"between BEGIN and END SOLUTION, or write {GIVEN} in it"
                )


def _is_todo(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        return "NotImplementedError" in ast.unparse(statement)
    if not isinstance(statement, ast.Expr):
        return False
    is_docstring = isinstance(statement.value, ast.Constant)
    return is_docstring or ast.unparse(statement) == "super().__init__()"


def unknown_names(place: Place) -> Iterator[str]:
    """Names in ``given`` and ``forbidden`` that nothing goes by, so that they do nothing."""
    for module in place.lab.given:
        if not (place.root / (module.replace(".", "/") + ".py")).is_file():
            yield f"lab.toml: given: there is no module {module}"
    for dotted in place.lab.forbidden:
        module, _, name = dotted.rpartition(".")
        try:
            known = hasattr(importlib.import_module(module), name)
        except (ImportError, ValueError):
            known = False
        if not known:
            yield f"lab.toml: forbidden: {dotted} does not exist; check how it is spelt"

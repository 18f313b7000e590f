"""Finds the message keys that code asks for, from the syntax tree.

Keys are literals in calls of ``Message`` and ``CheckFailed``, and in calls of functions that
put an area in front: ``def say(key): … Message(f"grade.{key}")``. What is computed at run
time stays unseen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.place import read

_MAKERS = ("Message", "CheckFailed")
_LABEL = re.compile(r"""\blabel\(\s*["'](\w+)["']""")
_SAY = re.compile(r"""\bsay\(\s*["'](\w+)["']\s*[,)]""")  # in the page of the class
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Use:
    """A key, and where it is asked for."""

    path: Path
    line: int
    key: str


@dataclass(frozen=True)
class _Forwarder:
    """A function that puts ``area`` in front of its argument number ``index``."""

    area: str
    index: int


def uses(root: Path) -> Iterator[Use]:
    """Every use in the code of the autograder, in its templates, and in the labs' checks."""
    paths = sorted((root / "autograder").rglob("*.py")) + sorted(root.glob("labs/*/checks/*.py"))
    trees = {path: ast.parse(read(path)) for path in paths}
    forwarders = {path: _forwarders(tree) for path, tree in trees.items()}
    exported = {name: found for names in forwarders.values() for name, found in names.items()}
    for path, tree in trees.items():
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        known = {name: found for name, found in exported.items() if name in imported}
        yield from _calls(path, tree, known | forwarders[path])
    for path in sorted((root / "autograder" / "report" / "templates").glob("*.j2")):
        for number, line in enumerate(read(path).splitlines(), 1):
            for name in _LABEL.findall(line):
                yield Use(path, number, f"report.{name}")
            for name in _SAY.findall(line):
                yield Use(path, number, f"dashboard.{name}")


def _calls(path: Path, tree: ast.Module, known: dict[str, _Forwarder]) -> Iterator[Use]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _called(node)
        if name in _MAKERS and node.args:
            for key in _literals(node.args[0]):
                yield Use(path, node.lineno, key)
        elif name in known and len(node.args) > known[name].index:
            for key in _literals(node.args[known[name].index]):
                yield Use(path, node.lineno, f"{known[name].area}.{key}")


def _forwarders(tree: ast.Module) -> dict[str, _Forwarder]:
    found: dict[str, _Forwarder] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, _Function) and child.name == "__init__":
                    found |= _forwarder(child, node.name, skip=1)
        elif isinstance(node, _Function) and node.name != "__init__":
            found |= _forwarder(node, node.name, skip=0)
    return found


def _forwarder(function: _Function, name: str, skip: int) -> dict[str, _Forwarder]:
    parameters = [argument.arg for argument in function.args.args][skip:]
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _called(node) in _MAKERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.JoinedStr) and len(first.values) == 2:
                area, value = first.values
                if (
                    isinstance(area, ast.Constant)
                    and isinstance(value, ast.FormattedValue)
                    and isinstance(value.value, ast.Name)
                    and value.value.id in parameters
                ):
                    index = parameters.index(value.value.id)
                    return {name: _Forwarder(str(area.value).rstrip("."), index)}
    return {}


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _literals(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return _literals(node.body) + _literals(node.orelse)
    return []

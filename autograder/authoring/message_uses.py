"""Finds the message keys that code asks for, from the syntax tree.

Keys are literals in calls of ``Message`` and ``CheckFailed``, and in calls of functions that
put an area in front: ``def say(key): … Message(f"grade.{key}")``. What is computed at run
time stays unseen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
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


@dataclass(frozen=True)
class _Call:
    """A call: of what, where, and the texts that each of its arguments may be."""

    name: str
    line: int
    literals: tuple[list[str], ...]


@dataclass(frozen=True)
class _Outline:
    """What a file calls, imports by name, and has of functions that put an area in front."""

    calls: tuple[_Call, ...]
    imported: frozenset[str]
    forwarders: dict[str, _Forwarder]


def uses(root: Path) -> Iterator[Use]:
    """Every use in the code of the autograder, in its templates, and in the labs' checks."""
    paths = sorted((root / "autograder").rglob("*.py")) + sorted(root.glob("labs/*/checks/*.py"))
    outlines = {path: _outline(read(path)) for path in paths}
    exported = {name: f for outline in outlines.values() for name, f in outline.forwarders.items()}
    for path, outline in outlines.items():
        known = {name: found for name, found in exported.items() if name in outline.imported}
        yield from _uses(path, outline.calls, known | outline.forwarders)
    for path in sorted((root / "autograder" / "report" / "templates").glob("*.j2")):
        for number, line in enumerate(read(path).splitlines(), 1):
            for name in _LABEL.findall(line):
                yield Use(path, number, f"report.{name}")
            for name in _SAY.findall(line):
                yield Use(path, number, f"dashboard.{name}")


@cache  # by text: who looks at the project again finds most of it as it was
def _outline(text: str) -> _Outline:
    calls: list[_Call] = []
    imported: set[str] = set()
    forwarders: dict[str, _Forwarder] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            calls.append(_Call(_called(node), node.lineno, tuple(map(_literals, node.args))))
        elif isinstance(node, ast.ImportFrom):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, _Function) and child.name == "__init__":
                    forwarders |= _forwarder(child, node.name, skip=1)
        elif isinstance(node, _Function) and node.name != "__init__":
            forwarders |= _forwarder(node, node.name, skip=0)
    return _Outline(tuple(calls), frozenset(imported), forwarders)


def _uses(path: Path, calls: Iterable[_Call], known: dict[str, _Forwarder]) -> Iterator[Use]:
    for call in calls:
        if call.name in _MAKERS and call.literals:
            for key in call.literals[0]:
                yield Use(path, call.line, key)
        elif call.name in known and len(call.literals) > known[call.name].index:
            for key in call.literals[known[call.name].index]:
                yield Use(path, call.line, f"{known[call.name].area}.{key}")


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

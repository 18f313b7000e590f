"""Marks: reasons for a human to look at a hand-in. They never change a score."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from autograder.course.records import Lab, Message

MAX_MARKS = 10
# Characters that are parsed here, in the judge, which has no CPU limit: some Pythons take minutes
# for a long formatted string. In what is longer the bare word is enough.
MAX_TEXT = 50_000


def forbidden(lab: Lab, files: Mapping[str, str], operators: set[str]) -> list[Message]:
    """Uses of what the lab asks students to write themselves.

    Args:
        lab: names the forbidden functions, dotted.
        files: text of the hand-in by file name.
        operators: what its code dispatched; a name can hide from the syntax tree, not here.
    """
    names = {dotted.rsplit(".", 1)[1]: dotted for dotted in lab.forbidden}
    modules = {file.removesuffix(".py") for file in files}
    marks = []
    for file, text in files.items():
        if not any(name in text for name in names):
            continue  # spares the parser for almost every hand-in
        if len(text) > MAX_TEXT:
            found = sorted({dotted for name, dotted in names.items() if name in text})
            marks += [_mark(file, 0, dotted) for dotted in found]
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # its own outcome says so
        for line, used in _names(tree, modules):
            if used in names:
                marks.append(_mark(file, line, names[used]))
    if not marks:
        # The lab's names, not the operators': those are the student's to choose, and could tell
        # what a hidden case holds.
        found = [_bare(operator) for operator in operators]
        seen = [names[name] for name in names if any(_bare(name) in one for one in found)]
        marks = [Message("check.forbidden_operator", {"name": dotted}) for dotted in sorted(seen)]
    return marks[:MAX_MARKS]


def _mark(file: str, line: int, dotted: str) -> Message:
    return Message("check.forbidden", {"file": file, "line": line, "name": dotted})


def _bare(name: str) -> str:
    """``nn.MultiheadAttention`` calls ``multi_head_attention_forward``."""
    return name.replace("_", "").lower()


def _names(tree: ast.AST, modules: Set[str]) -> Iterator[tuple[int, str]]:
    """Every name that code takes from elsewhere, strings included (``getattr(F, "…")``).

    A lab may ask for a function that is called as torch's: what the file defines, or imports
    from a file of the hand-in (``modules``), is the student's own, and so is ``self.…``.
    """
    own, mine = set(_own(tree, modules)), {"self", *modules}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id in mine):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Name) and node.id not in own:
            yield node.lineno, node.id
        elif isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and node.module not in modules
        ):
            yield from ((node.lineno, alias.name.rsplit(".", 1)[-1]) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, "" if node.value in own else node.value


def _own(tree: ast.AST, modules: Set[str]) -> Iterator[str]:
    """Names that a file defines, or imports from a file of the hand-in."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            yield from (alias.asname or alias.name for alias in node.names)

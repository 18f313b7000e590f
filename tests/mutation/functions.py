"""The functions of a file: what a change in one of them makes of its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache


class Functions:
    """Functions and methods of a text by their lines; those inside others belong to these.

    A change touches one of them, and parsing that one takes a tenth of what the file takes.
    """

    def __init__(self, text: str) -> None:
        self._lines = len(text.splitlines())
        self._spans = spans(text)

    def codes(self, text: str) -> Iterator[tuple[int, str]]:
        """The code of every function of the text."""
        for first, _ in self._spans:
            yield self.code(text, first)

    def code(self, text: str, line: int) -> tuple[int, str]:
        """Where a function begins and what it does: equal for texts that do the same.

        Args:
            text: the text, changed in nothing but the function around ``line``.
            line: of the text before the change.

        Raises:
            SyntaxError: the changed function is no Python.
        """
        first, last = next(span for span in self._spans if span[0] <= line <= span[1])
        lines = text.splitlines()
        code = lines[first - 1 : last + len(lines) - self._lines]
        head = ["class Around:"] if code[0].startswith(" ") else []
        return first, ast.dump(ast.parse("\n".join(head + code)))


@cache
def spans(text: str) -> tuple[tuple[int, int], ...]:
    """First and last lines of functions and methods, decorators included."""
    return tuple(_spans(ast.parse(text)))


def _spans(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            yield min(n.lineno for n in (node, *node.decorator_list)), node.end_lineno
        elif isinstance(node, ast.ClassDef):
            yield from _spans(node)

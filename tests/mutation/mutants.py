"""Mutants of a lab's solution: every small change inside its SOLUTION blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m
from libcst.metadata import (
    CodeRange,
    ExpressionContext,
    ExpressionContextProvider,
    MetadataWrapper,
    PositionProvider,
)

from autograder.authoring import stubs
from tests.mutation.functions import Functions
from tests.mutation.operators import changes
from tests.mutation.scope import Scope, scope_of

_DEVICE = m.Attribute(attr=m.Name("device"))


@dataclass(frozen=True)
class Mutant:
    """A solution with one change.

    ``before`` and ``after`` are the changed lines without indentation; with ``file`` and
    ``exercise`` they say what was done, and keep saying it when other lines move.
    """

    id: str
    file: str
    exercise: str
    line: int
    operator: str
    before: str
    after: str
    text: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names this mutant in lists that are kept."""
        return self.file, self.exercise, self.before, self.after

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.operator}: {self.before!r} -> {self.after!r}"


def mutants_of(sources: Mapping[str, str]) -> tuple[Mutant, ...]:
    """All mutants of all files, in the order of their lines; no two with the same code."""
    found: list[Mutant] = []
    for file, text in sources.items():
        functions = Functions(text)
        same = set(functions.codes(text))
        for mutant in sorted(_mutants(file, text), key=lambda mutant: mutant.line):
            try:
                code = functions.code(mutant.text, mutant.line)
            except SyntaxError:
                continue  # no program: nothing to grade
            if code not in same:
                same.add(code)
                found.append(mutant)
    return tuple(replace(mutant, id=f"m{number:04}") for number, mutant in enumerate(found))


def _mutants(file: str, text: str) -> Iterator[Mutant]:
    exercises = _exercises(text, file)
    wrapper = MetadataWrapper(cst.parse_module(text))
    visitor = _Changes(exercises)
    wrapper.visit(visitor)
    lines = text.splitlines(keepends=True)
    for place, operator, new in visitor.found:
        code = _replaced(wrapper.module, lines, place, new)
        line = place.start.line
        before, after = _changed_lines(text, code)
        yield Mutant("", file, exercises[line], line, operator, before, after, code)


def _replaced(module: cst.Module, lines: Sequence[str], place: CodeRange, new: cst.CSTNode) -> str:
    """The code of ``module`` with ``new`` in ``place``.

    What ``module.deep_replace`` does as well, at a hundredth of the price.
    """
    start, end = place.start, place.end
    first, last = lines[start.line - 1], lines[end.line - 1]
    code = module.code_for_node(new)
    if isinstance(new, cst.Is | cst.IsNot | cst.NotIn):
        code = code.strip()  # their place is without the spaces
    text = first[: start.column] + code + last[end.column :]
    return "".join((*lines[: start.line - 1], text, *lines[end.line :]))


def _exercises(text: str, name: str) -> dict[int, str]:
    """The exercise of every line that stands in a SOLUTION block, by line number."""
    lines: dict[int, str] = {}
    numbers = iter(enumerate(text.splitlines(), start=1))
    for exercise, _, block in stubs.blocks(text, name):
        begin = next(n for n, line in numbers if line.strip().startswith("# BEGIN SOLUTION"))
        lines |= {begin + 1 + i: exercise for i in range(len(block))}
    return lines


class _Changes(cst.CSTVisitor):
    """Collects place, operator and replacement."""

    METADATA_DEPENDENCIES = (PositionProvider, ExpressionContextProvider)

    def __init__(self, exercises: Mapping[int, str]) -> None:
        super().__init__()
        self.found: list[tuple[CodeRange, str, cst.CSTNode]] = []
        self._exercises = exercises
        self._around: list[cst.Module | cst.ClassDef] = []
        self._scopes: list[Scope] = []
        self._asked: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Module | cst.ClassDef):
            self._around.append(node)
        elif isinstance(node, cst.FunctionDef):
            module, around = self._around[0], self._around[-1]
            assert isinstance(module, cst.Module)
            self._scopes.append(scope_of(module, around, node, self._line))
        elif isinstance(node, cst.Annotation | cst.Raise) or m.matches(node, _DEVICE):
            # No change: annotations do not run, the words of errors are free, and a grading has
            # one device.
            return False
        elif isinstance(node, cst.Attribute) and node.attr.value in ("dtype", "shape"):
            self._asked.add(node.value)  # for something else than its values
        line = self._line(node)
        if self._scopes and line in self._exercises and not self._names_only(node):
            for operator, new in changes(node, self._scopes[-1].before(line)):
                if operator != "nearly" or node not in self._asked:
                    self.found.append(self._change(operator, node, new))
        return True

    def on_leave(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.FunctionDef):
            self._scopes.pop()
        elif isinstance(node, cst.Module | cst.ClassDef):
            self._around.pop()

    def _line(self, node: cst.CSTNode) -> int:
        return self.get_metadata(PositionProvider, node).start.line

    def _change(
        self, operator: str, node: cst.CSTNode, new: cst.CSTNode
    ) -> tuple[CodeRange, str, cst.CSTNode]:
        """A change, narrowed to the part of a statement that changes."""
        if isinstance(node, cst.If) and isinstance(new, cst.If):
            node, new = node.test, new.test
        elif isinstance(new, cst.SimpleStatementLine):
            new = new.body[0]  # the place is without the comments around it
        return self.get_metadata(PositionProvider, node), operator, new

    def _names_only(self, node: cst.CSTNode) -> bool:
        """Whether it is a name without a value of its own: a keyword, a target, an attribute."""
        if not isinstance(node, cst.Name):
            return False
        return self.get_metadata(ExpressionContextProvider, node, None) != ExpressionContext.LOAD


def _changed_lines(old: str, new: str) -> tuple[str, str]:
    """The lines that differ, before and after, without indentation."""
    before, after = old.splitlines(), new.splitlines()
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return _stripped(before), _stripped(after)


def _stripped(lines: list[str]) -> str:
    return "\n".join(line.strip() for line in lines)

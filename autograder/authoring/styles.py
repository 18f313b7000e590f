"""Texts of the right solutions in other styles, of which some hold only what differs.

An overlay is a file that begins with the line ``# over the solution``. Its functions, classes and
assignments replace those of the same name in the solution's file; a class with the same header
replaces only the members that it defines. What the solution does not have comes before the next
one that it has, or else at the end; imports come after the solution's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder.course.labfile import ROOT, SOLUTIONS

MARKER = "# over the solution\n"
Edit = tuple[int, int, list[str]]  # lines from, up to and without; what stands there then


def folders(lab: str, root: Path = ROOT) -> list[Path]:
    """The folders of all styles of a lab, given by its name."""
    found = (root / "tests" / "styles" / lab.split("_")[0]).glob("*/*.py")
    return sorted({path.parent for path in found})


def text_of(folder: Path, file: str) -> str:
    """The whole text of a style's file: composed, as it stands, or the solution's if absent."""
    own = folder / file
    text = own.read_text(encoding="utf-8") if own.is_file() else MARKER
    if not text.startswith(MARKER):
        return text
    (solution,) = [at for at in SOLUTIONS.iterdir() if at.name.split("_")[0] == folder.parent.name]
    return composed((solution / file).read_text(encoding="utf-8"), text)


def texts_of(folder: Path, files: Iterable[str]) -> dict[str, str]:
    """The whole text of each of these files of a style."""
    return {file: text_of(folder, file) for file in files}


def composed(solution: str, overlay: str) -> str:
    """The solution's text with an overlay put over it."""
    below, above = solution.splitlines(), overlay.splitlines()
    edits = list(_edits(below, above, ast.parse(solution), ast.parse(overlay)))
    edits.sort(key=lambda edit: edit[0])
    for start, end, lines in reversed(edits):
        below[start:end] = lines
    return "\n".join(below) + "\n"


def _edits(
    below: list[str],
    above: list[str],
    old: ast.Module | ast.ClassDef,
    new: ast.Module | ast.ClassDef,
) -> Iterator[Edit]:
    known = {name_of(node): node for node in old.body}
    gap = [""] * (2 if isinstance(new, ast.Module) else 1)
    waiting: list[str] = []
    for node in new.body:
        start, end = _span(above, node)
        there = known.get(name_of(node))
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = max(n.end_lineno or 0 for n in old.body if isinstance(n, type(node)))
            yield last, last, above[start:end]
        elif name_of(node) is None or there is None:
            if node is not new.body[0] or ast.get_docstring(new) is None:
                waiting += [*above[start:end], *gap]
        else:
            first, last = _span(below, there)
            yield first, first, waiting
            waiting = []
            if (
                isinstance(node, ast.ClassDef)
                and isinstance(there, ast.ClassDef)
                and header(node) == header(there)
            ):
                yield from _edits(below, above, there, node)
            else:
                yield first, last, above[start:end]
    end = old.body[-1].end_lineno or 0
    yield end, end, [*gap, *waiting][: len(waiting)]


def _span(lines: list[str], node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement, with its decorators and the comments right above."""
    start = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start, node.end_lineno or 0


def name_of(node: ast.stmt) -> str | None:
    """The name of a function, of a class or of an assignment to one name."""
    match node:
        case ast.FunctionDef(name) | ast.ClassDef(name):
            return name
        case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
            return name
    return None


def header(node: ast.stmt) -> list[str]:
    """The bases, keywords and decorators of a class; nothing for everything else."""
    if not isinstance(node, ast.ClassDef):
        return []
    return [ast.dump(one) for one in (*node.bases, *node.keywords, *node.decorator_list)]

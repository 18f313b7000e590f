"""Notebooks from their sources: a Python file in percent format becomes an ``.ipynb``.

The source is the one place where a notebook is edited; the ``.ipynb`` is generated, checked
in, and compared by the audit. Both are the same every time: cell ids come from the text, and
there are no outputs, timestamps or version numbers.

Format: ``# %%`` opens a code cell, ``# %% [markdown]`` a text cell whose lines begin with
``#``; words after the marker are a title for the reader of the source and are dropped. A line
``# %check lab2`` in a code cell is the magic ``%check lab2``, which no Python source can hold.
Source: the nbformat 4.5 specification; the percent format as Spyder, VS Code and jupytext
read it.

Labels of charts are written in English; a table beside the notebooks has them in Chinese.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.authoring.place import LabSources
from autograder.course import chart_labels
from autograder.intake.notebook import library

if TYPE_CHECKING:  # slow to import: where a notebook is built
    from nbformat import NotebookNode

_MARKER = re.compile(r"^# %%(?:\s+\[(?P<kind>[^\]]*)\])?(?:\s.*)?$")
_MAGIC = re.compile(r"^# (?=%[a-z])")


@dataclass(frozen=True)
class Cell:
    """One cell of the source: ``kind`` is ``code`` or ``markdown``; ``line`` counts from 1."""

    kind: str
    text: str
    line: int


def build(source: Path) -> NotebookNode:
    """The notebook that ``source`` describes: valid nbformat 4.5, without outputs.

    Raises:
        ValueError: the file is not in percent format (names file, line and the mending).
    """
    nbformat = library()
    seen: dict[str, int] = {}
    cells = []
    v4 = nbformat.v4
    for cell in parse(source):
        make = v4.new_markdown_cell if cell.kind == "markdown" else v4.new_code_cell
        cells.append(make(cell.text, id=_cell_id(cell, seen)))
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "name": "python"},
    }
    # The minor version is set here, not left to the installed nbformat: it may move on to 4.6.
    notebook: NotebookNode = v4.new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)
    nbformat.validate(notebook)
    return notebook


def write(source: Path, notebook: Path) -> None:
    """Generate ``notebook`` (an ``.ipynb`` path) from ``source``.

    Raises:
        ValueError: see ``build``.
    """
    notebook.write_text(_text(build(source)), encoding="utf-8", newline="\n")


def stale(source: Path, notebook: Path) -> bool:
    """Return whether ``notebook`` is absent or is not, byte for byte, what ``write`` would make.

    Raises:
        ValueError: see ``build``.
    """
    wanted = _text(build(source)).encode("utf-8")
    return not notebook.is_file() or notebook.read_bytes() != wanted


def parse(source: Path) -> list[Cell]:
    """The cells of ``source`` in order; cells without any text are left out.

    Raises:
        ValueError: text before the first marker, an unknown kind of cell, a text cell with a
            line that is no comment, or no cell at all.
    """
    cells: list[Cell] = []
    kind, start = "", 0
    lines: list[str] = []
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1):
        marker = _MARKER.match(line)
        if marker is None:
            if not kind and line.strip():
                raise _fault(source, number, "stands before the first cell; put '# %%' above it")
            lines.append(line)
            continue
        cells += _finish(source, kind, start, lines)
        kind, start, lines = marker["kind"] or "code", number, []
        if kind not in ("code", "markdown"):
            raise _fault(source, number, f"names the cell [{kind}]; write [markdown] or nothing")
    cells += _finish(source, kind, start, lines)
    if not cells:
        raise ValueError(f"{source}: there is no cell in it; begin one with '# %%'")
    return cells


def _finish(source: Path, kind: str, start: int, lines: list[str]) -> list[Cell]:
    """The cell opened at line ``start``, or nothing where there is no text."""
    if kind == "markdown":
        lines = [_uncomment(source, start + n, line) for n, line in enumerate(lines, start=1)]
    else:
        lines = [_MAGIC.sub("", line) for line in lines]
    text = "\n".join(lines).strip("\n").rstrip()
    return [Cell(kind, text, start)] if kind and text else []


def _uncomment(source: Path, number: int, line: str) -> str:
    if line.strip() and not line.startswith("#"):
        raise _fault(source, number, "is in a markdown cell; begin it with '# '")
    return line.removeprefix("#").removeprefix(" ")


def _fault(source: Path, number: int, what: str) -> ValueError:
    return ValueError(f"{source}, line {number}: this line {what}")


def _cell_id(cell: Cell, seen: dict[str, int]) -> str:
    """An id that moves with the text, so that inserting a cell leaves the others unchanged."""
    digest = hashlib.sha256(f"{cell.kind}\n{cell.text}".encode()).hexdigest()[:12]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _text(notebook: NotebookNode) -> str:
    return f"{library().v4.writes(notebook).rstrip()}\n"


# Labels: texts that a cell gives to matplotlib, and those that get there through its names.

_CALLS = re.compile("annotate|barh?|legend|suptitle|text|(set_)?(title|[xy](label|ticks))")
_NAMED = re.compile("labels?|title|[xy](tick)?labels?")
# What no language changes: numbers, words of code, units.
_FIXED = re.compile(r"\w+[A-Z_]\w*|[\w.,]*\d\w*|\{\}", re.ASCII)
_WORD = re.compile("[A-Za-z]{2}")


def unlabelled(place: LabSources) -> Iterator[str]:
    """Labels that the table lacks or tells with other numbers, and entries that label no chart."""
    table, used = chart_labels.load(place.root), set()
    for source in sorted((place.root / "notebooks").glob("*.py")):
        for line, label in labels(source):
            if (found := chart_labels.entry(label, table)) is not None:
                used.add(found[0])
            elif source in place.notebooks:
                where = f"{place.shown(source)}:{line}"
                yield f"{where}: {chart_labels.FILE} does not hold the label “{label}”; add it"
    for en, zh in table.items():
        if en not in used:
            yield f"{chart_labels.FILE}: no chart has the label “{en}”; take it out"
        if sorted(_FIXED.findall(en)) != sorted(_FIXED.findall(zh)):
            yield f"{chart_labels.FILE}: “{zh}” has other numbers, code words or {{}} than “{en}”"


def labels(source: Path) -> Iterator[tuple[int, str]]:
    """The labels with words in the charts of a notebook, by line; ``{}`` stands for a value."""
    for cell in parse(source):
        if cell.kind == "code":
            for line, label in _labels(ast.parse(re.sub("(?m)^%", "# %", cell.text))):
                # A token of a text may begin with a space; a label does not.
                if _WORD.search(_FIXED.sub("", label)) and label[0] != " ":
                    yield cell.line + line, label


def _labels(tree: ast.Module) -> Iterator[tuple[int, str]]:
    given: dict[str, list[ast.expr]] = defaultdict(list)  # what a name may hold
    waiting: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)]):
                given[name].append(key)
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
            ):
                for one in ast.walk(target):
                    if isinstance(one, ast.Name):
                        given[one.id].append(value)
            case ast.Call(func=function, args=values, keywords=named):
                waiting += [one.value for one in named if _NAMED.fullmatch(one.arg or "")]
                if isinstance(function, ast.Attribute) and _CALLS.fullmatch(function.attr):
                    waiting += values
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Constant(value=str(label)):
                yield node.lineno, label
            case ast.JoinedStr(values=parts):
                told = (one.value if isinstance(one, ast.Constant) else "{}" for one in parts)
                yield node.lineno, "".join(map(str, told))
                waiting += [one.value for one in parts if isinstance(one, ast.FormattedValue)]
            case ast.Name(id=name):
                waiting += given.pop(name, [])
            case ast.Dict(keys=keys):
                waiting += filter(None, keys)
            case ast.List(elts=values) | ast.Tuple(elts=values):
                waiting += values
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
                waiting += one, other
            case ast.ListComp(elt=one) | ast.Call(func=ast.Attribute(value=one, attr="items")):
                waiting.append(one)
            case ast.Call(func=ast.Name(id="zip" | "enumerate" | "list"), args=values):
                waiting += values

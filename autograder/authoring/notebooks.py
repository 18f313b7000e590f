"""Notebooks from their sources: a Python file in percent format becomes an ``.ipynb``.

The source is the one place where a notebook is edited; the ``.ipynb`` is generated, checked
in, and compared by the audit. Both are the same every time: cell ids come from the text, and
there are no outputs, timestamps or version numbers.

Format: ``# %%`` opens a code cell, ``# %% [markdown]`` a text cell whose lines begin with
``#``; words after the marker are a title for the reader of the source and are dropped. A line
``# %check lab2`` in a code cell is the magic ``%check lab2``, which no Python source can hold.
Source: the nbformat 4.5 specification; the percent format as Spyder, VS Code and jupytext
read it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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

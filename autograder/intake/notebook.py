"""Lab files out of notebooks: cells that begin with ``%%writefile NAME``. Nothing is run."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from typing import Any

from autograder.course.records import Lab, Message
from autograder.intake.choose import AbsentError, FolderRank, listed, rank, standing
from autograder.intake.names import is_lookalike, is_meant, shown
from autograder.intake.tree import (
    MAX_NOTEBOOK_BYTES,
    MAX_SOURCE_BYTES,
    FoundPath,
    Kind,
    RefusedError,
    Tree,
    decode,
)

MAX_NOTEBOOKS = 8  # of one hand-in that are looked into

_BLANKS = " \t"


def sources(text: str, name: str, lab: str) -> dict[str, str]:
    """The files that running the notebook's cells from top to bottom would write, by name.

    A later cell of the same file replaces an earlier one; ``-a`` adds to it. What goes into the
    folder of another lab is left out.

    Raises:
        RefusedError: no notebook, or a file grows over the cap of a source file.
    """
    files: dict[str, list[str]] = {}
    # Loading nbformat takes a second, which most notebooks are not worth.
    if "%%" not in text and '"cells"' in text:
        return {}
    sizes: Counter[str] = Counter()
    for cell in _cells(text, name):
        first, _, body = cell.lstrip("\n").partition("\n")
        if (written := _written(first)) is None:
            continue
        path, append = written
        *folders, file = path.replace("\\", "/").split("/")
        ranks = (standing(folder, lab) for folder in reversed(folders))
        if next((its for its in ranks if its is not FolderRank.NONE), None) is FolderRank.OTHER:
            continue
        if not append:
            files[file], sizes[file] = [], 0
        body += "" if body.endswith("\n") or not body else "\n"
        files.setdefault(file, []).append(body)
        sizes[file] += len(body)
        if sizes[file] > MAX_SOURCE_BYTES:
            raise RefusedError("too_big", file=shown(file), limit=MAX_SOURCE_BYTES >> 10)
    return {file: "".join(parts) for file, parts in files.items()}


def _written(line: str) -> tuple[str, bool] | None:
    """The path that a cell with this first line writes, and whether it appends.

    As IPython reads it: an option before the name appends; `%%file` is its older name.
    """
    magic, rest = _word(line)
    if magic not in ("%%writefile", "%%file"):
        return None
    option, after = _word(rest)
    append = option in ("-a", "--append") and bool(after)
    path = after if append else rest
    if len(path) > 2 and path[0] == path[-1] and path[0] in "\"'":
        path = path[1:-1].strip()
    return (path, append) if path and not {'"', "'"} & set(path) else None


def _word(line: str) -> tuple[str, str]:
    """Return what stands before the first blank, and all else without the blanks around it."""
    place = min((at for at in map(line.find, _BLANKS) if at >= 0), default=len(line))
    return line[:place], line[place:].strip(_BLANKS)


def library() -> Any:
    """Return nbformat, imported without grammars that it never uses: nine tenths of the time."""
    # jsonschema builds them for kinds of text that no notebook has, and does without.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    return import_module("nbformat")


def _cells(text: str, name: str) -> list[str]:
    """The text of the code cells, in order, of a notebook of format 3 or 4."""
    nbformat = library()
    reader: Any = import_module("nbformat.reader")
    try:
        # `nbformat.reads` would also validate, and refuse what Jupyter itself still opens.
        notebook = nbformat.convert(reader.reads(text), 4)
        cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return ["".join(cell).replace("\r\n", "\n").replace("\r", "\n") for cell in cells]
    except Exception:  # nbformat has errors of its own, and hostile JSON finds others
        raise RefusedError("broken_notebook", file=name) from None


class Notebooks:
    """The notebooks of a hand-in, read when a file of the lab is missing."""

    def __init__(self, tree: Tree, lab: Lab) -> None:
        self._tree, self._lab = tree, lab
        self._read: list[tuple[FoundPath, dict[str, str] | RefusedError, Message | None]] | None = (
            None
        )

    def take(self, file: str, notes: list[Message]) -> str | None:
        """The file from the cells of the nearest notebook that writes it; None if none does.

        Raises:
            RefusedError: several notebooks for which as much speaks write it differently.
        """
        holding = [
            (found, written[file], note)
            for found, written, note in self._notebooks()
            if isinstance(written, dict) and file in written
        ]
        if not holding:
            return None
        ranks = [rank(found, self._lab) for found, _, _ in holding]
        least = min(one for one in ranks if one is not None)
        chosen = [one for one, its in zip(holding, ranks, strict=True) if its == least]
        if len({text for _, text, _ in chosen}) > 1:
            where = listed(found for found, _, _ in chosen)
            raise RefusedError("ambiguous", file=file, found=where)
        found, text, note = chosen[0]
        if "\0" in text:
            raise RefusedError("nul", file=file)
        values = {"file": file, "found": shown(found.path)}
        notes.append(Message("intake.from_notebook", values))
        if note is not None:
            notes.append(note)
        return text

    def instead(self, file: str, absent: AbsentError) -> RefusedError:
        """Say what to say when no notebook writes the file, where ``absent`` is said otherwise."""
        books = [found for found, _, _ in self._notebooks()]
        if not books:
            return absent
        named = [one.name for one in self._tree.found if one.name.lower().endswith(".py")]
        if absent.reason.key == "intake.behind_symlink" or any(
            is_meant(name, file) or is_lookalike(name, file) for name in named
        ):
            return absent  # a Python file that only has the wrong name is the better hint
        for _, written, _ in self._notebooks():
            if isinstance(written, RefusedError) and not named:
                return written
        return RefusedError("no_cells", file=file, found=listed(books))

    def _notebooks(self) -> list[tuple[FoundPath, dict[str, str] | RefusedError, Message | None]]:
        if self._read is None:
            ranks = [
                (its, one)
                for one in self._tree.found
                if one.kind is Kind.FILE
                and one.name.lower().endswith(".ipynb")
                and (its := rank(one, self._lab)) is not None
            ]
            found = [one for _, one in sorted(ranks, key=lambda pair: pair[0])]
            read = [(one, *self._look(one)) for one in found[:MAX_NOTEBOOKS]]
            # What is no JSON is Python under a notebook's name: a wrong name, nothing more.
            self._read = [(one, w, note) for one, w, note in read if w is not None]
        return self._read

    def _look(
        self, found: FoundPath
    ) -> tuple[dict[str, str] | RefusedError | None, Message | None]:
        name = shown(found.path)
        try:
            text, note = decode(self._tree.read(found, MAX_NOTEBOOK_BYTES), name)
            is_book = text.lstrip().startswith("{")
            return (sources(text, name, self._lab.name) if is_book else None), note
        except RefusedError as refused:
            return refused, None

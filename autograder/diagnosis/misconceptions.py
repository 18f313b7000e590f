"""Misconceptions: known mistakes, each a patch of the reference solution.

``solutions/<lab>/misconceptions.toml`` lists them. The patched solution is a wrong hand-in for
our own tests, and its outputs are the fingerprint by which the mistake is named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.course.labfile import Table
from autograder.course.records import FAMILIES, Misconception, Text

# One known mistake as a patch of the reference solution.


class MisconceptionError(ValueError):
    """The list, or a patch, is wrong; the text names file, entry, key and the mend."""


@dataclass(frozen=True)
class Patch:
    """Replace ``old``, which stands in the file exactly once, by ``new``."""

    old: str
    new: str


@dataclass(frozen=True)
class Entry:
    """One way to make a known mistake.

    ``class_name`` (``class`` in the file) is shared by entries with equal outputs: more than
    the class cannot be told from numbers. Of the ``families`` at least one must fail.
    ``source`` is the paper or issue where it bit, or empty.
    """

    id: str
    source_ids: tuple[str, ...]
    group: str
    class_name: str
    file: str
    families: tuple[str, ...]
    name: Text
    sees: Text
    hint: Text
    source: str
    patches: tuple[Patch, ...]


def apply(entry: Entry, sources: Mapping[str, str]) -> dict[str, str]:
    """The reference solution with this mistake in it.

    Args:
        entry: what to put in.
        sources: text of the reference solution by file name; it is not changed.

    Returns:
        All of ``sources``, one of them patched; patches are applied in their order.

    Raises:
        MisconceptionError: the file is absent, or an ``old`` does not stand there exactly once.
    """
    where = f"{entry.file}: entry {entry.id}"
    if entry.file not in sources:
        known = ", ".join(sorted(sources)) or "none"
        raise MisconceptionError(f"{where}: file: not among the sources ({known})")
    text = sources[entry.file]
    for number, patch in enumerate(entry.patches, start=1):
        times = text.count(patch.old)
        if times != 1:
            raise MisconceptionError(
                f"{where}: patch {number}: old: must stand in the file exactly once, but stands "
                f"there {times} times; copy it from the present solution: {patch.old!r}"
            )
        text = text.replace(patch.old, patch.new)
    return {**sources, entry.file: text}


__all__ = ("GROUPS", "Catalogue", "Entry", "MisconceptionError", "Section", "apply", "load")

GROUPS = (
    "softmax",
    "scale",
    "causal mask",
    "GQA",
    "RoPE",
    "QK-norm",
    "LayerNorm",
    "RMSNorm",
    "KV cache",
    "projections",
    "reshape",
    "dtype",
    "weights",
    "MLP gate",
    "MLP activation",
    "accounting",
    "layer",
    "positions",
    "model",
    "head",
    "loading",
    "sampling",
    "generation",
    "flat tokens",
    "tensor parallel",
    "residual",
    "tiles",
    "memory",
    "routing",
    "experts",
    "balance",
)


@dataclass(frozen=True)
class Section:
    """A section of the lab's handout; ``anchor`` is its heading as GitHub links to it."""

    title: Text
    anchor: str


@dataclass(frozen=True)
class Catalogue:
    """All known mistakes of a lab.

    ``classes`` holds, by the id of the class, the words for it; ``sections`` by group what to
    read (and teach) again.
    """

    entries: tuple[Entry, ...]
    classes: Mapping[str, Misconception]
    sections: Mapping[str, Section]


def load(path: Path) -> Catalogue:
    """Read a ``misconceptions.toml``.

    Raises:
        MisconceptionError: the file does not parse; a key is missing, unknown or of the wrong
            kind; an id stands twice; a group or family is not on the list; a class of several
            entries has no ``[[class]]``, or one of a single entry has one; or a group that is
            used has no ``[[section]]``, or one that is not used has one.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MisconceptionError(f"{path}: {error}") from None
    top = _table(f"{path}: top level", raw, "misconception", "class", "section")
    entries: dict[str, Entry] = {}
    for number, table in enumerate(top.tables("misconception"), start=1):
        where = f"{path}: entry {_name(table, 'id', number)}"
        entry = _entry(where, table)
        if entry.id in entries:
            raise MisconceptionError(f"{where}: id: stands twice; rename one")
        entries[entry.id] = entry
    if not entries:
        raise top.error("misconception", "must hold at least one table")
    found = tuple(entries.values())
    sections = _sections(path, top, found)
    return Catalogue(found, _classes(path, top, found, sections), sections)


def _table(where: str, raw: object, *known: str) -> Table:
    return Table(where, raw, known, MisconceptionError)


def _name(raw: object, key: str, number: int) -> str:
    """Return how errors call a table: by its id if it has one."""
    name = raw.get(key) if isinstance(raw, dict) else None
    return name if isinstance(name, str) and name else f"number {number}"


def _entry(where: str, raw: object) -> Entry:
    needed = ("id", "source_ids", "group", "class", "file", "families", "name", "sees", "hint")
    table = _table(where, raw, *needed, "source", "patch")
    patches = tuple(
        _patch(_table(f"{where}: patch {number}", patch, "old", "new"))
        for number, patch in enumerate(table.tables("patch"), start=1)
    )
    if not patches:
        raise table.error("patch", "must hold at least one table")
    return Entry(
        id=table.string("id"),
        source_ids=table.strings("source_ids"),
        group=table.string("group", GROUPS),
        class_name=table.string("class"),
        file=table.string("file"),
        families=table.strings("families", FAMILIES),
        name=table.text("name"),
        sees=table.text("sees"),
        hint=table.text("hint"),
        source=table.string("source", default=""),
        patches=patches,
    )


def _patch(table: Table) -> Patch:
    old, new = table.string("old"), table.value("new", str)
    if old == new:
        raise table.error("new", "must differ from old")
    return Patch(old, new)


def _sections(path: Path, top: Table, entries: tuple[Entry, ...]) -> dict[str, Section]:
    """Exactly one section for each group in use."""
    used = dict.fromkeys(entry.group for entry in entries)
    sections: dict[str, Section] = {}
    for number, raw in enumerate(top.tables("section", []), start=1):
        where = f"{path}: section {_name(raw, 'group', number)}"
        table = _table(where, raw, "group", "title", "anchor")
        group = table.string("group", GROUPS)
        if group in sections:
            raise table.error("group", "stands twice; keep one")
        if group not in used:
            raise table.error("group", "no entry is of this group; take the section away")
        sections[group] = Section(table.text("title"), table.string("anchor"))
    for group in used:
        if group not in sections:
            raise MisconceptionError(f"{path}: group {group}: expected a [[section]] for it")
    return sections


def _classes(
    path: Path, top: Table, entries: tuple[Entry, ...], sections: Mapping[str, Section]
) -> dict[str, Misconception]:
    """The words for each class: its own if it has several entries, else those of its entry."""
    members: dict[str, list[Entry]] = {}
    for entry in entries:
        members.setdefault(entry.class_name, []).append(entry)
    words: dict[str, tuple[Text, Text, Text]] = {}
    for number, raw in enumerate(top.tables("class", []), start=1):
        where = f"{path}: class {_name(raw, 'id', number)}"
        table = _table(where, raw, "id", "name", "sees", "hint")
        name = table.string("id")
        if name in words:
            raise table.error("id", "stands twice; keep one")
        if len(members.get(name, ())) < 2:
            raise table.error("id", "expected the class of at least two entries; take it away")
        words[name] = table.text("name"), table.text("sees"), table.text("hint")
    found: dict[str, Misconception] = {}
    for name, (first, *more) in members.items():
        if more and name not in words:
            text = f"{len(more) + 1} entries share it; expected a [[class]] with its words"
            raise MisconceptionError(f"{path}: class {name}: {text}")
        title, sees, hint = words.get(name, (first.name, first.sees, first.hint))
        section = sections[first.group]
        source = next((entry.source for entry in (first, *more) if entry.source), "")
        found[name] = Misconception(
            name, first.group, title, sees, hint, section.title, section.anchor, source
        )
    return found

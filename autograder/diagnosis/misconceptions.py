"""Misconceptions: known mistakes, each a patch of the reference solution.

``solutions/<lab>/misconceptions.toml`` lists them. The patched solution is a wrong hand-in for
our own tests, and its outputs are the fingerprint by which the mistake is named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder.course.labfile import Table
from autograder.course.records import Misconception, Text, anchor

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
    the class cannot be told from numbers. ``file`` is empty where the patches tell it. Of the
    ``families``, if there are any, at least one must fail. ``source`` is the paper or issue where
    it bit, or empty.
    """

    id: str
    group: str
    class_name: str
    file: str
    families: tuple[str, ...]
    name: Text
    sees: Text
    hint: Text
    source: str
    patches: tuple[Patch, ...]


def file_of(entry: Entry, sources: Mapping[str, str]) -> str:
    """The file that an entry changes: the one it names, or the only one that its patch fits.

    Args:
        entry: the mistake.
        sources: text of the reference solution by file name.

    Raises:
        MisconceptionError: that file is absent, or the patch fits none or several.
    """
    old = entry.patches[0].old
    fitting = [entry.file] if entry.file else [n for n, text in sources.items() if old in text]
    if len(fitting) != 1 or fitting[0] not in sources:
        what = f"not among the sources ({', '.join(sorted(sources)) or 'none'})"
        if not entry.file:
            what = f"patch 1 fits {len(fitting)} files, so name one ({', '.join(fitting)}): {old!r}"
            what = what if fitting else f"patch 1: old: stands in no file of the solution: {old!r}"
        raise MisconceptionError(f"{entry.file or 'solution'}: entry {entry.id}: file: {what}")
    return fitting[0]


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
    file = file_of(entry, sources)
    text = sources[file]
    for number, patch in enumerate(entry.patches, start=1):
        times = text.count(patch.old)
        if times != 1:
            raise MisconceptionError(
                f"{file}: entry {entry.id}: patch {number}: old: must stand in the file exactly "
                f"once, but stands there {times} times; copy it from the present solution: "
                f"{patch.old!r}"
            )
        text = text.replace(patch.old, patch.new)
    return {**sources, file: text}


@dataclass(frozen=True)
class Section:
    """A section of the lab's handout; ``anchor`` is its heading as GitHub links to it."""

    title: Text
    anchor: str


@dataclass(frozen=True)
class Catalogue:
    """All known mistakes of a lab.

    ``classes`` holds, by the id of the class, the words for it; ``behaviours`` by id the words of
    those that experiments show and no patch is like; ``contract`` by id those of every lab, which
    checks tell themselves; ``sections`` by group what to read (and teach) again.
    """

    entries: tuple[Entry, ...]
    classes: Mapping[str, Misconception]
    sections: Mapping[str, Section]
    behaviours: Mapping[str, Misconception] = field(default_factory=dict)
    contract: Mapping[str, Misconception] = field(default_factory=dict)

    @property
    def words(self) -> dict[str, Misconception]:
        """The words of whatever may be named, by id."""
        return {**self.contract, **self.classes, **self.behaviours}


# What the checks of every lab tell themselves: the words, and by which sentence.
CONTRACT = Path(__file__).with_name("contract.toml")
TOLD = {
    "check.nothing": "nothing_returned",
    "check.inside": "tuple_returned",
    "check.dtype": "dtype_not_kept",  # where half precision is wanted
    "check.input_changed": "argument_changed",
    "check.buffer": "weight_not_learned",
    "check.weights_plain": "weight_not_learned",
    "check.weights_bias": "bias_not_asked_for",
    "check.weights": "parameters_renamed",
}
_CONTRACT = "contract"  # their group


def load(path: Path, sources: Mapping[str, str] | None = None) -> Catalogue:
    """Read a ``misconceptions.toml``.

    Args:
        path: of the file.
        sources: text of the reference solution by file name; by it every entry knows its file.

    Raises:
        MisconceptionError: the file does not parse; a key is missing, unknown or of the wrong
            kind; an id stands twice; a family is not on the list; a class of several entries has
            no ``[[class]]``, or one of a single entry has one; a group that is used stands in no
            ``[[section]]``, or one that is not used does; or an entry fits no file of ``sources``.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MisconceptionError(f"{path}: {error}") from None
    top = _table(f"{path}: top level", raw, "misconception", "class", "behaviour", "section")
    entries: dict[str, Entry] = {}
    for number, table in enumerate(top.tables("misconception"), start=1):
        where = f"{path}: entry {_name(table, 'id', number)}"
        for entry in _ways(where, table):
            if entry.id in entries:
                raise MisconceptionError(f"{where}: id: stands twice; rename one")
            entries[entry.id] = entry
    if not entries:
        raise top.error("misconception", "must hold at least one table")
    found = tuple(entries.values())
    if sources is not None:
        found = tuple(replace(entry, file=file_of(entry, sources)) for entry in found)
    behaviours = [_behaviour(path, *one) for one in enumerate(top.tables("behaviour", []), 1)]
    groups = [entry.group for entry in found] + [words.group for words in behaviours]
    sections = _sections(path, top, groups)
    classes = _classes(path, top, found, sections)
    contract = _contract(sections)
    shown: dict[str, Misconception] = {}
    for words in behaviours:
        if words.id in classes or words.id in shown or words.id in contract:
            raise MisconceptionError(f"{path}: behaviour {words.id}: id: stands twice; rename one")
        shown[words.id] = _placed(words, sections)
    return Catalogue(found, classes, sections, shown, contract)


def _placed(words: Misconception, sections: Mapping[str, Section]) -> Misconception:
    section = sections.get(words.group, Section(Text("", ""), ""))
    return replace(words, section=section.title, anchor=section.anchor)


def _contract(sections: Mapping[str, Section]) -> dict[str, Misconception]:
    """The mistakes of every lab, with this lab's section."""
    top = _table(f"{CONTRACT}: top level", tomllib.loads(CONTRACT.read_text("utf-8")), "behaviour")
    words = (_behaviour(CONTRACT, *one) for one in enumerate(top.tables("behaviour"), 1))
    return {one.id: _placed(one, sections) for one in words}


def _table(where: str, raw: object, *known: str) -> Table:
    return Table(where, raw, known, MisconceptionError)


def _name(raw: object, key: str, number: int) -> str:
    """Return how errors call a table: by its id if it has one."""
    name = raw.get(key) if isinstance(raw, dict) else None
    return name if isinstance(name, str) and name else f"number {number}"


_PATCHES = ("old", "new", "patch")


def _ways(where: str, raw: dict[str, Any]) -> Iterator[Entry]:
    """An entry, and one more for each other way to make the same mistake (``also``)."""
    keys = ("id", "group", "class", "file", "families", "name", "sees", "hint", "source")
    table = _table(where, raw, *keys, *_PATCHES, "also")
    entry = _entry(table, raw, _patches(where, table, raw))
    yield entry
    for number, other in enumerate(table.tables("also", []), start=2):
        place = f"{where}: way {number}"
        patches = _patches(place, _table(place, other, *_PATCHES), other)
        yield replace(entry, id=f"{entry.id}-{number}", patches=patches)


def _patches(where: str, table: Table, raw: Mapping[str, Any]) -> tuple[Patch, ...]:
    if "patch" in raw and not {"old", "new"}.isdisjoint(raw):
        raise table.error("patch", "holds every old and new, where there are several")
    patches = [(f"{where}: patch {n}", p) for n, p in enumerate(table.tables("patch", []), 1)]
    if "patch" not in raw:
        patches = [(where, {key: raw[key] for key in ("old", "new") if key in raw})]
    if not patches:
        raise table.error("patch", "must hold at least one table")
    return tuple(_patch(_table(place, patch, "old", "new")) for place, patch in patches)


def _entry(table: Table, raw: Mapping[str, Any], patches: tuple[Patch, ...]) -> Entry:
    name = table.string("id")
    return Entry(
        id=name,
        group=table.string("group"),
        class_name=table.string("class", default=name),
        file=table.string("file", default=""),
        families=table.strings("families", default=[]),
        name=table.text("name"),
        sees=table.text("sees") if "sees" in raw else Text("", ""),
        hint=table.text("hint"),
        source=table.string("source", default=""),
        patches=patches,
    )


def _behaviour(path: Path, number: int, raw: dict[str, Any]) -> Misconception:
    where = f"{path}: behaviour {_name(raw, 'id', number)}"
    table = _table(where, raw, "id", "group", "name", "sees", "hint", "source")
    return Misconception(
        id=table.string("id"),
        group=table.string("group"),
        name=table.text("name"),
        sees=table.text("sees") if "sees" in raw else Text("", ""),
        hint=table.text("hint"),
        section=Text("", ""),
        source=table.string("source", default=""),
    )


def _patch(table: Table) -> Patch:
    old, new = table.string("old"), table.value("new", str)
    if old == new:
        raise table.error("new", "must differ from old")
    return Patch(old, new)


def _sections(path: Path, top: Table, groups: Iterable[str]) -> dict[str, Section]:
    """The section of every group in use; one may be that of several."""
    used = dict.fromkeys(groups)
    sections: dict[str, Section] = {}
    for number, raw in enumerate(top.tables("section", []), start=1):
        table = _table(f"{path}: section number {number}", raw, "groups", "title")
        title = table.text("title")
        for group in table.strings("groups"):
            if group in sections:
                raise table.error("groups", f"{group} stands twice; keep one")
            if group not in used and group != _CONTRACT:
                raise table.error("groups", f"no entry is of the group {group}; take it away")
            sections[group] = Section(title, anchor(title.en))
    for group in used:
        if group not in sections:
            raise MisconceptionError(f"{path}: group {group}: expected in a [[section]]")
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
        sees = table.text("sees") if "sees" in raw else Text("", "")
        words[name] = table.text("name"), sees, table.text("hint")
    found: dict[str, Misconception] = {}
    for name, (first, *more) in members.items():
        own = {(entry.name, entry.sees, entry.hint) for entry in (first, *more)}
        if len(own) > 1 and name not in words:
            text = f"{len(more) + 1} entries share it; expected a [[class]] with its words"
            raise MisconceptionError(f"{path}: class {name}: {text}")
        title, sees, hint = words.get(name, (first.name, first.sees, first.hint))
        section = sections[first.group]
        source = next((entry.source for entry in (first, *more) if entry.source), "")
        found[name] = Misconception(
            name, first.group, title, sees, hint, section.title, section.anchor, source
        )
    return found

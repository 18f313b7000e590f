"""Misconceptions: known mistakes, each a patch of the reference solution.

``solutions/<lab>/misconceptions.toml`` lists them. The patched solution is a wrong hand-in for
our own tests, and its outputs are the fingerprint by which the mistake is named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.records import FAMILIES, Text

GROUPS = (
    "softmax",
    "scale",
    "causal mask",
    "GQA",
    "RoPE",
    "QK-norm",
    "RMSNorm",
    "projections",
    "reshape",
    "dtype",
    "weights",
    "MLP gate",
    "MLP activation",
    "accounting",
)


class MisconceptionError(ValueError):
    """The list, or a patch, is wrong; the text names file, entry, key and the mend."""


@dataclass(frozen=True)
class Patch:
    """Replace ``old``, which stands in the file exactly once, by ``new``."""

    old: str
    new: str


@dataclass(frozen=True)
class Misconception:
    """One known mistake.

    ``class_name`` (``class`` in the file) is shared by mistakes with equal outputs: more than
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


def load(path: Path) -> tuple[Misconception, ...]:
    """Read a ``misconceptions.toml``.

    Raises:
        MisconceptionError: the file does not parse; a key is missing, unknown or of the wrong
            kind; an id stands twice; or a group or family is not on the list.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MisconceptionError(f"{path}: {error}") from None
    top = _Table(path, "top level", raw, ("misconception",))
    found: dict[str, Misconception] = {}
    for index, table in enumerate(top.tables("misconception"), start=1):
        entry = _entry(path, index, table)
        if entry.id in found:
            raise MisconceptionError(f"{path}: entry {entry.id}: id: stands twice; rename one")
        found[entry.id] = entry
    return tuple(found.values())


def apply(misconception: Misconception, sources: Mapping[str, str]) -> dict[str, str]:
    """The reference solution with this mistake in it.

    Args:
        misconception: what to put in.
        sources: text of the reference solution by file name; it is not changed.

    Returns:
        All of ``sources``, one of them patched; patches are applied in their order.

    Raises:
        MisconceptionError: the file is absent, or an ``old`` does not stand there exactly once.
    """
    m = misconception
    if m.file not in sources:
        known = ", ".join(sorted(sources)) or "none"
        raise MisconceptionError(f"{m.file}: entry {m.id}: file: not among the sources ({known})")
    text = sources[m.file]
    for number, patch in enumerate(m.patches, start=1):
        times = text.count(patch.old)
        if times != 1:
            raise MisconceptionError(
                f"{m.file}: entry {m.id}: patch {number}: old: must stand in the file exactly "
                f"once, but stands there {times} times; copy it from the present solution: "
                f"{patch.old!r}"
            )
        text = text.replace(patch.old, patch.new)
    return {**sources, m.file: text}


def _entry(path: Path, index: int, raw: dict[str, Any]) -> Misconception:
    name = raw.get("id")
    where = f"entry {name}" if isinstance(name, str) and name else f"entry number {index}"
    needed = ("id", "source_ids", "group", "class", "file", "families", "name", "sees", "hint")
    table = _Table(path, where, raw, (*needed, "source", "patch"))
    return Misconception(
        id=table.string("id"),
        source_ids=table.strings("source_ids"),
        group=table.string("group", GROUPS),
        class_name=table.string("class"),
        file=table.string("file"),
        families=table.strings("families", FAMILIES),
        name=table.text("name"),
        sees=table.text("sees"),
        hint=table.text("hint"),
        source=table.string("source") if "source" in raw else "",
        patches=tuple(
            _patch(_Table(path, f"{where}: patch {number}", patch, ("old", "new")))
            for number, patch in enumerate(table.tables("patch"), start=1)
        ),
    )


def _patch(table: _Table) -> Patch:
    old, new = table.string("old"), table.string("new", empty=True)
    if old == new:
        raise table.error("new", "expected a text that differs from old")
    return Patch(old, new)


class _Table:
    """One TOML table; remembers where it stands, so that every error can say so."""

    def __init__(self, path: Path, where: str, raw: Any, known: tuple[str, ...]) -> None:
        self._path, self._where = path, where
        if not isinstance(raw, dict):
            raise MisconceptionError(f"{path}: {where}: expected a table")
        self._raw: dict[str, Any] = raw
        for key in raw:
            if key not in known:
                raise self.error(key, f"unknown key; expected one of {', '.join(known)}")

    def error(self, key: str, text: str) -> MisconceptionError:
        return MisconceptionError(f"{self._path}: {self._where}: {key}: {text}")

    def string(self, key: str, choices: tuple[str, ...] = (), *, empty: bool = False) -> str:
        value = self._raw.get(key)
        if not isinstance(value, str) or not (empty or value.strip()):
            raise self.error(key, "expected a text that is not empty")
        if choices and value not in choices:
            raise self.error(key, f"{value!r} is not known; expected one of {', '.join(choices)}")
        return value

    def strings(self, key: str, choices: tuple[str, ...] = ()) -> tuple[str, ...]:
        values = self._raw.get(key)
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise self.error(key, "expected a list of texts")
        for value in values:
            if choices and value not in choices:
                text = f"{value!r} is not known; expected some of {', '.join(choices)}"
                raise self.error(key, text)
        if choices and not values:
            raise self.error(key, f"expected at least one of {', '.join(choices)}")
        return tuple(values)

    def text(self, key: str) -> Text:
        table = self._raw.get(key)
        languages = ("en", "zh")
        if not isinstance(table, dict) or set(table) != set(languages):
            raise self.error(key, f"expected {key}.en and {key}.zh")
        inner = _Table(self._path, f"{self._where}: {key}", table, languages)
        return Text(inner.string("en"), inner.string("zh"))

    def tables(self, key: str) -> list[dict[str, Any]]:
        value = self._raw.get(key)
        if not isinstance(value, list) or not value:
            raise self.error(key, f"expected at least one [[…{key}]] table")
        return value

"""The kept list of survivors that are no mistakes: ``tests/mutation/<lab>/equivalent.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.records import Lab
from tests.mutation.mutants import Mutant

Key = tuple[str, str, str, str]  # file, exercise, lines before, lines after
KEYS = {"file", "exercise", "before", "after", "why"}


class KeptError(ValueError):
    """The list is wrong; the text names file, entry, key and the mend."""


@dataclass(frozen=True)
class Kept:
    """Mutants of one place, and why none of them is a mistake."""

    file: str
    exercise: str
    before: str
    after: tuple[str, ...]
    why: str

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of its mutants."""
        return tuple((self.file, self.exercise, self.before, after) for after in self.after)


@dataclass(frozen=True)
class Verdict:
    """Survivors beside the list.

    ``open`` survive and are not on the list; ``gone`` are on the list, but do not survive.
    """

    survivors: tuple[Mutant, ...]
    open: tuple[Mutant, ...]
    gone: tuple[Mutant, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, each with its mend."""
        return (
            *(f"{m} survives: sharpen a check, or list it with a reason" for m in self.open),
            *(f"{m} is killed now: take it off equivalent.toml" for m in self.gone),
        )


def path_of(lab: Lab) -> Path:
    """The list of a lab."""
    return Path(__file__).with_name(lab.name.partition("_")[0]) / "equivalent.toml"


def load(path: Path) -> tuple[Kept, ...]:
    """Read a list.

    Raises:
        KeptError: the file does not parse, a key is missing, unknown or of the wrong kind, or
            the same mutant stands there twice.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise KeptError(f"{path}: {error}") from None
    entries = tuple(_entries(path, raw))
    keys = [key for entry in entries for key in entry.keys]
    for key in keys:
        if keys.count(key) > 1:
            raise KeptError(f"{path}: {key} stands twice; remove one")
    return entries


def _entries(path: Path, raw: Mapping[str, Any]) -> Iterator[Kept]:
    for number, table in enumerate(raw.get("equivalent", ()), start=1):
        if not isinstance(table, dict) or set(table) != KEYS:
            raise KeptError(f"{path}: entry {number}: expected the keys {', '.join(sorted(KEYS))}")
        after = table["after"]
        texts = [table[key] for key in sorted(KEYS - {"after"})]
        if not isinstance(after, list) or not after:
            raise KeptError(f"{path}: entry {number}: after: expected a list of texts")
        if not all(isinstance(text, str) and text.strip() for text in (*texts, *after)):
            raise KeptError(f"{path}: entry {number}: expected texts that are not empty")
        yield Kept(**{**table, "after": tuple(after)})


def compare(
    entries: tuple[Kept, ...], mutants: tuple[Mutant, ...], survivors: tuple[Mutant, ...]
) -> Verdict:
    """Survivors among ``mutants`` beside the list."""
    listed = {key for entry in entries for key in entry.keys}
    lived = {mutant.id for mutant in survivors}
    return Verdict(
        survivors,
        tuple(m for m in survivors if m.key not in listed),
        tuple(m for m in mutants if m.key in listed and m.id not in lived),
    )


def unknown(entries: tuple[Kept, ...], mutants: tuple[Mutant, ...]) -> tuple[str, ...]:
    """Entries that are like none of all ``mutants``: the solution has changed since."""
    made = {mutant.key for mutant in mutants}
    return tuple(
        f"no mutant is like {key}: mend or remove the entry"
        for entry in entries
        for key in entry.keys
        if key not in made
    )

"""The same mistakes in another host: right code of a quite different style, with its own patches.

``other_host/`` holds the two files of lab 2 and ``mistakes.toml``, a list of
``[[mistake]] id, file`` with one or more ``[[mistake.patch]] old, new`` each.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.course.labfile import SOLUTIONS
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Entry, Patch

FILES = ("attention.py", "mlp.py")
SOLUTION = SOLUTIONS / "lab2_qwen3_block"
FOLDER = Path(__file__).parent / "other_host"


@dataclass(frozen=True)
class OtherMistake:
    """A hand-in of the other style: ``id`` is the listed misconception, ``sources`` its files."""

    id: str
    sources: dict[str, str]


def listed() -> dict[str, Entry]:
    """The misconceptions of lab 2 by id."""
    path = SOLUTION / "misconceptions.toml"
    return {e.id: e for e in misconceptions.load(path, read(SOLUTION)).entries}


def read(folder: Path) -> dict[str, str]:
    """The text of both files in ``folder``."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in FILES}


def host() -> dict[str, str]:
    """The other host without a mistake."""
    return read(FOLDER)


def mistakes() -> tuple[OtherMistake, ...]:
    """Every mistake of ``mistakes.toml`` in the other host.

    Raises:
        KeyError: an entry is not on the list of misconceptions, or lacks a key.
        MisconceptionError: an ``old`` does not stand in its file exactly once.
    """
    known, sources = listed(), host()
    entries = tomllib.loads((FOLDER / "mistakes.toml").read_text(encoding="utf-8"))["mistake"]
    made = []
    for entry in entries:
        patches = tuple(Patch(**patch) for patch in entry["patch"])
        here = replace(known[entry["id"]], file=entry["file"], patches=patches)
        made.append(OtherMistake(here.id, misconceptions.apply(here, sources)))
    return tuple(made)

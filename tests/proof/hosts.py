"""The mistakes of lab 2 in other hosts: right code of other styles, each with patches of its own.

``host_mistakes/`` holds a file for every style that is such a host, named after its folder in
``tests/styles/lab2``: a table for each file of the lab, in it for each misconception by id
``[[old, new], …]``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autograder.course.labfile import SOLUTIONS
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Entry, Patch

FILES = ("attention.py", "mlp.py")
SOLUTION = SOLUTIONS / "lab2_qwen3_block"
FOLDER = Path(__file__).parent / "host_mistakes"
STYLES = Path(__file__).parents[1] / "styles" / "lab2"


def listed() -> dict[str, Entry]:
    """The misconceptions of lab 2 by id."""
    path = SOLUTION / "misconceptions.toml"
    return {e.id: e for e in misconceptions.load(path, read(SOLUTION)).entries}


def read(folder: Path) -> dict[str, str]:
    """The text of both files in ``folder``."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in FILES}


@dataclass(frozen=True)
class Host:
    """Right code in a style of its own, and the mistakes of somebody who writes like that."""

    path: Path

    @property
    def name(self) -> str:
        """That of the style."""
        return self.path.stem

    @cached_property
    def sources(self) -> dict[str, str]:
        """The files without a mistake."""
        return read(STYLES / self.name)

    @cached_property
    def mistakes(self) -> dict[str, dict[str, str]]:
        """The files with a mistake in them, by the id of the misconception.

        Raises:
            KeyError: an entry is not on the list of misconceptions.
            MisconceptionError: an ``old`` does not stand in its file exactly once.
        """
        known, made = listed(), {}
        for file, entries in tomllib.loads(self.path.read_text(encoding="utf-8")).items():
            for name, changes in entries.items():
                patches = tuple(Patch(old, new) for old, new in changes)
                here = replace(known[name], file=f"{file}.py", patches=patches)
                made[name] = misconceptions.apply(here, self.sources)
        return made


HOSTS = tuple(Host(path) for path in sorted(FOLDER.glob("*.toml")))

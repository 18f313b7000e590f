"""One lab, and the hand-ins that are made of its solution."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.recording import FOLDER, RecordedEngine
from autograder.course import labfile
from autograder.course.load_lab import read_sources
from autograder.course.records import HandIn, Lab, Outcome
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Entry
from autograder.grading.prepare import hidden_cases

HandIns = Mapping[str, Mapping[str, str]]  # text by file name, by name
SECRET = b"the secret of the proofs"
_engines = ExitStack()  # one for each lab that was graded, ended with the tests


@dataclass(frozen=True)
class Subject:
    """One lab, and the hand-ins that are made of it."""

    lab: Lab

    @cached_property
    def sources(self) -> dict[str, str]:
        """The solution by file name."""
        return read_sources(labfile.SOLUTIONS / self.lab.name, self.lab.files)[0]

    @property
    def styles(self) -> list[Path]:
        """Folders of right solutions in other styles."""
        name = self.lab.name.split("_")[0]
        return sorted(p.parent for p in labfile.ROOT.glob(f"tests/styles/{name}/*/attention.py"))

    @cached_property
    def mistakes(self) -> tuple[Entry, ...]:
        """All known mistakes."""
        path = labfile.SOLUTIONS / self.lab.name / "misconceptions.toml"
        return misconceptions.load(path).entries

    @cached_property
    def family(self) -> dict[str, str]:
        """The family of every check."""
        return {check.name: check.family for check in self.lab.checks}

    def foreign(self, file: str) -> set[str]:
        """Families that a mistake in ``file`` must not cost: those of the other files alone."""
        families = {
            own: {c.family for e in self.lab.exercises if (e.file == file) is own for c in e.checks}
            for own in (True, False)
        }
        return families[False] - families[True]

    def grade(self, hand_ins: HandIns) -> dict[str, HandIn]:
        """Grade hand-ins given as text, on public and hidden cases, or read what they came to."""
        return self._engine.grade(hand_ins)

    def named(self, hand_ins: HandIns) -> dict[str, HandIn]:
        """The same for what is named in them: on public cases, which alone decide about names.

        Hidden cases are asked of those that lose nothing on public ones.
        """
        found = self._public_engine.grade(hand_ins)
        kept = {name: hand_ins[name] for name, record in found.items() if not self.lost(record)}
        return found | self._engine.grade(kept)

    @cached_property
    def _engine(self) -> RecordedEngine:
        hidden = hidden_cases(self.lab.name, FOLDER, SECRET)
        return _engines.enter_context(RecordedEngine(self.lab, hidden))

    @cached_property
    def _public_engine(self) -> RecordedEngine:
        return _engines.enter_context(RecordedEngine(self.lab, None))

    def lost(self, hand_in: HandIn) -> dict[str, Outcome]:
        """Checks that cost points, with their outcomes."""
        worth = {check.name for check in self.lab.checks if check.points}
        return {
            result.check: result.outcome
            for result in hand_in.results
            if result.check in worth and result.outcome is not Outcome.PASSED
        }


# A lab is finished when it has its handout; before that its mistakes may still be collected.
SUBJECTS = {
    path.parent.name.split("_")[0]: Subject(labfile.load(path.parent))
    for path in sorted(labfile.LABS.glob("*/README.md"))
}


def end_engines() -> None:
    """End the engines of all labs; one that is needed again starts again."""
    _engines.close()


def changed_labs(root: Path = labfile.ROOT) -> Collection[str]:
    """Labs that differ from the last release tag, or from ``origin/main`` where there is none.

    Returns:
        Their short names; none where there is neither, or no git.
    """

    def git(*words: str) -> list[str]:
        line = ["git", "-C", str(root), *words]
        try:
            return subprocess.run(line, capture_output=True, text=True, check=False).stdout.split()
        except OSError:
            return []

    base = git("describe", "--tags", "--abbrev=0") or ["origin/main"]
    places = ("labs", "solutions", "tests/styles", "tests/proof", "tests/mutation")
    found = git("diff", "--name-only", *base, "--", *places)
    found += git("ls-files", "--others", "--exclude-standard", "--", *places)
    return {name for name in SUBJECTS if any(re.search(f"[/_]{name}[_./]", p) for p in found)}


# What `make check` proves; `make check-all` proves every lab.
CHECKED = sorted({"lab2", *changed_labs()})
labs_of_check = pytest.mark.parametrize("subject", [SUBJECTS[n] for n in CHECKED], ids=CHECKED)


def every_lab(test: Any) -> Any:
    """Run a test for every lab, in ``make check-all``."""
    labs = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
    return pytest.mark.slow(labs(test))


def with_lab(name: str) -> list[pytest.MarkDecorator]:
    """Marks of a module about one lab: slow, unless `make check` proves that lab."""
    return [] if name in CHECKED else [pytest.mark.slow]

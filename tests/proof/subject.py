"""One lab, and the hand-ins that are made of its solution."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from autograder.authoring import styles
from autograder.authoring.recording import FOLDER, RecordedEngine
from autograder.course import labfile
from autograder.course.records import HandIn, Lab, Outcome
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Entry
from autograder.grading.hidden_cases import hidden_cases
from autograder.worker.loader import read_sources

HandIns = Mapping[str, Mapping[str, str]]  # text by file name, by name
SECRET = b"the secret of the proofs"
FORBIDDEN_STYLES = {
    "lab1": ("flat_baddbmm", "torch_functions", "torch_modules"),
    "lab2": ("sdpa",),
    "lab3": ("sdpa",),
    "lab5": ("sdpa_per_sequence",),
    "lab6": ("sdpa",),
}
_engines = ExitStack()  # one for each lab that was graded, ended with the tests


@dataclass(frozen=True)
class Subject:
    """One lab, and the hand-ins that are made of it."""

    lab: Lab

    @property
    def short(self) -> str:
        """``lab2`` of ``lab2_qwen3_block``."""
        return self.lab.name.split("_")[0]

    @cached_property
    def sources(self) -> dict[str, str]:
        """The solution by file name."""
        return read_sources(labfile.SOLUTIONS / self.lab.name, self.lab.files)[0]

    @property
    def styles(self) -> list[Path]:
        """Folders of right solutions in other styles."""
        return styles.folders(self.lab.name)

    @property
    def forbidden_styles(self) -> set[str]:
        """Names of those styles that do use what the lab forbids: they are marked, and right."""
        return set(FORBIDDEN_STYLES.get(self.short, ()))

    @cached_property
    def mistakes(self) -> tuple[Entry, ...]:
        """All known mistakes."""
        path = labfile.SOLUTIONS / self.lab.name / "misconceptions.toml"
        return misconceptions.load(path, self.sources).entries

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


each_lab = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)

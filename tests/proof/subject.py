"""One lab, and the hand-ins that are made of its solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.course import labfile
from autograder.course.load_lab import read_sources
from autograder.course.records import HandIn, Lab, Outcome, Submission
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Entry
from autograder.grading.engine import Engine, Options


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

    def grade(self, hidden: Path, sources: Mapping[str, Mapping[str, str]]) -> dict[str, HandIn]:
        """Grade hand-ins given as text, two at a time."""
        submissions = (Submission(name, files) for name, files in sources.items())
        with Engine(self.lab, Options(hidden_cases=hidden, jobs=2)) as engine:
            engine.wait_ready()
            return {hand_in.student: hand_in for hand_in in engine.grade(submissions)}

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

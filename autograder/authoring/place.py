"""Paths of one lab's sources. Another root makes the same promises about a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.course import labfile
from autograder.course.records import Lab


class NotProvedError(Exception):
    """A promise that this machine can neither prove nor refute; the text says why."""


@dataclass(frozen=True)
class LabSources:
    """The checkout at ``root`` and the lab ``name`` (a folder of ``labs``) in it."""

    root: Path
    name: str

    @classmethod
    def find(cls, lab_name: str, root: Path = labfile.ROOT) -> LabSources:
        """The lab that goes by a name or number.

        Raises:
            LabError: none does.
        """
        return cls(root, labfile.find_lab(lab_name, root / "labs").name)

    @cached_property
    def lab(self) -> Lab:
        """Return what ``lab.toml`` says.

        Raises:
            LabError: see :func:`autograder.course.labfile.load`.
        """
        return labfile.load(self.folder)

    @property
    def is_chinese(self) -> bool:
        """Whether it is taught in Chinese, too: then everything has to be in both languages."""
        try:
            lab = self.lab
        except labfile.LabError:  # which another promise tells
            return True
        words = [lab.title.zh, *(exercise.hint.zh for exercise in lab.exercises)]
        return any("\u4e00" <= sign <= "\u9fff" for sign in "".join(words))

    @property
    def holds_the_grader(self) -> bool:
        """Whether the grader's own sources lie in this course, and are looked at with it."""
        return (self.root / "autograder" / "course" / "messages").is_dir()

    @property
    def test_command(self) -> tuple[str, str]:
        """How students test the lab, and what stands before the exercise that they mean."""
        number = self.name.removeprefix("lab").split("_")[0]
        if (self.root / "Makefile").is_file() or self.holds_the_grader:
            return f"make test LAB={number}", "K="
        return f"autograder test --lab {number}", "-k "

    @property
    def folder(self) -> Path:
        """The lab as students get it."""
        return self.root / "labs" / self.name

    @property
    def solutions(self) -> Path:
        """The folder that holds the solutions of every lab."""
        return self.root / "solutions"

    @property
    def solution(self) -> Path:
        """The solution of this lab."""
        return self.solutions / self.name

    @property
    def cases(self) -> Path:
        """The public cases."""
        return self.folder / "cases.safetensors"

    @property
    def misconceptions(self) -> Path:
        """The list of known mistakes."""
        return self.solution / "misconceptions.toml"

    @property
    def fingerprints(self) -> Path:
        """The bank of single mistakes, which students get too."""
        return self.folder / "fingerprints.bank"

    @property
    def pairs(self) -> Path:
        """The bank of two mistakes at once, for graders."""
        return self.solution / "pairs.bank"

    @property
    def notebooks(self) -> tuple[Path, ...]:
        """The sources of the lab's notebooks, and of those that belong to no lab.

        Each is generated beside its source.
        """
        found = sorted((self.root / "notebooks").glob("*.py"))
        return tuple(one for one in found if self._reads(one))

    def _reads(self, path: Path) -> bool:
        return path.name.startswith(self.name) or not path.name.startswith("lab")

    @property
    def built_notebooks(self) -> tuple[Path, ...]:
        """The notebooks that lie there, whether they have a source or not."""
        found = sorted((self.root / "notebooks").glob("*.ipynb"))
        return tuple(one for one in found if self._reads(one))

    def shown(self, path: Path) -> str:
        """``path`` as a reader of the checkout knows it."""
        return path.relative_to(self.root).as_posix()


def read(path: Path) -> str:
    """The text of a source of ours."""
    return path.read_text(encoding="utf-8")

"""A hand-in that solves nothing and tries to take the points, to see what a tool does about it."""

from __future__ import annotations

from pathlib import Path

from autograder.course.records import Lab
from autograder.worker.loader import read_sources

NAME = "hostile_000_patches_the_checks"
# Below the stub's code: the annotations import has to stay the first statement.
_TAKES = """

try:
    with open({mark!r}, "w") as file:
        file.write("was here")
except OSError:
    pass

import autograder.judge.runner as runner
from autograder.course.records import CheckResult, Outcome

runner.Runner._check = lambda self, check, *, hidden: CheckResult("", Outcome.PASSED)
"""


def make(folder: Path, lab: Lab, mark: Path) -> Path:
    """Write it into ``folder``: untouched stubs that replace the checks of their own process.

    Args:
        folder: where its own folder is made.
        lab: whose stubs it consists of.
        mark: a file outside of what a hand-in has to do with, which it tries to write.
    """
    path = folder / NAME
    path.mkdir(parents=True)
    for number, (file, text) in enumerate(read_sources(lab.folder, lab.files)[0].items()):
        taken = "" if number else _TAKES.format(mark=str(mark))
        (path / file).write_text(text + taken, encoding="utf-8")
    return path

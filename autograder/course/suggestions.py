"""Suggested commands, which can be copied: they repeat how the program was started."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

# Commands whose --folder holds a student's files.
WITH_FOLDER = ("test", "watch", "hint", "debug", "reset", "submit")


@dataclass(frozen=True)
class SuggestedOptions:
    """Options that a suggested command has to repeat, or it would do something else.

    Attributes:
        lab: the number of the lab whose files lie in ``folder``.
        folder: as it was given; empty: where the lab is.
        language: empty where it is what this machine speaks anyway.
    """

    lab: str = ""
    folder: str = ""
    language: str = ""

    def repeated(self, verb: str, lab: str) -> list[str]:
        """The words to put behind the command ``verb`` for the lab number ``lab``."""
        words = []
        if self.folder and verb in WITH_FOLDER and lab == self.lab:
            words.append(f"--folder {shlex.quote(self.folder)}")
        if self.language:
            words.append(f"--lang {self.language}")
        return words


def command(*words: object) -> str:
    """A command of ours as it can be typed here: with the Python that runs now."""
    # Not resolved: an environment's interpreter is a link to one that has no torch.
    python = Path(sys.executable)
    found = shutil.which(python.name)
    if found and Path(found).absolute() == python:
        word = python.name
    elif python.is_relative_to(Path.cwd()):
        word = str(python.relative_to(Path.cwd()))
    else:
        word = str(python)
    return " ".join([_quoted(word), "-m autograder", *(_quoted(str(word)) for word in words)])


def _quoted(word: str) -> str:
    return shlex.quote(word) if os.name == "posix" else f'"{word}"' if " " in word else word


NOTHING = SuggestedOptions()
ASKED: ContextVar[SuggestedOptions] = ContextVar("asked", default=NOTHING)


def number(lab: str) -> str:
    """The number in any of a lab's names: 2, lab2, lab2_qwen3_block."""
    found = re.match(r"(?:lab)?(\d+)", lab)
    return found[1] if found else ""

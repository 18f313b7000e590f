"""What the command line that runs has said, for the commands that it suggests."""

from __future__ import annotations

import re
import shlex
from contextvars import ContextVar
from dataclasses import dataclass

# Commands whose --folder holds a student's files.
WITH_FOLDER = ("test", "watch", "hint", "debug", "reset")


@dataclass(frozen=True)
class Asked:
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


NOTHING = Asked()
ASKED: ContextVar[Asked] = ContextVar("asked", default=NOTHING)


def number(lab: str) -> str:
    """The number in any of a lab's names: 2, lab2, lab2_qwen3_block."""
    found = re.match(r"(?:lab)?(\d+)", lab)
    return found[1] if found else ""

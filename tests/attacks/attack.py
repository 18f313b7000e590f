"""One attack or fault as data: what is handed in, what must hold, and how it would succeed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import hand_ins

CANARY = "canary-3f9c"  # begins every text that no output may hold
# Put into code, these stand for what a world fills in.
_NAMES = re.compile(
    r"\$(?:HIDDEN|NOTES|WORLD|SECRET|SIBLING|SHARED|ROOT|PACKAGE|VICTIM|ADDRESS|PORT|STORED)\b"
)
# The isolation layers that keep a worker from files. Without Landlock the user and its
# capabilities still decide, where the grader is root.
FILES = ("landlock_files", "uid", "capabilities")
WRITES = ("landlock_files", "uid", "capabilities", "seccomp", "rlimits")
PROCESSES = ("landlock_files", "uid", "seccomp", "rlimits", "parent_death")
SIGNALS = (*FILES, "landlock_scope", "seccomp")
NETWORK = (*FILES, "landlock_network", "landlock_scope", "seccomp")
KERNEL = ("uid", "capabilities", "seccomp", "rlimits")
MEMORY = ("rlimits",)


@dataclass(frozen=True)
class Off:
    """How an attack is set free to show that it works.

    ``way`` is one of

    * ``layers``  the same grading with these ``layers`` of isolation left off
    * ``border``  the checks run in one process with the hand-in; full marks are a success
    * ``public``  graded without hidden cases
    * ``naive``   a small grader that lacks one precaution, called ``by``

    ``shows`` is what proves it: a pattern in what is reported or printed, ``exit 0`` (of
    that run), ``hangs``, ``signal``, ``file`` (something lies in the shared folder),
    ``process`` (one outlives the grading), ``datagram`` (it reached the socket of the test), or
    ``points`` (more than without the attack).
    """

    way: str
    shows: str
    layers: tuple[str, ...] = ()
    by: str = ""


Files = Mapping[str, str]
Make = Callable[[Path, Files, Callable[[str], str]], None]


@dataclass(frozen=True)
class Attack:
    """An entry of the catalogue.

    ``first`` runs at the top of the files named in ``where``, ``last`` at their end; both are
    put on the hand-in ``base`` ("guess": runs and computes nothing; "stub"; "right"). An attack
    on the intake has ``make`` instead, which writes ``<student>`` or ``<student>.zip``.

    ``held`` says what stops it, ``most`` names the base whose points it may have at most,
    ``needs`` the guarantees (see `jail.guarantees`) without which it is not run, ``ends`` the
    only outcomes that its checks may have, ``says`` a text that its report must hold.
    """

    number: int
    title: str
    held: str
    first: str = ""
    last: str = ""
    base: str = "guess"
    most: str = ""
    where: tuple[str, ...] = hand_ins.FILES
    tag: str = ""
    needs: tuple[str, ...] = ()
    off: Off | None = None
    ends: frozenset[str] = frozenset()
    says: str = ""
    earns: tuple[str, ...] = ()  # checks that it passes by maths of its own
    misses: tuple[str, ...] = ()  # checks that it must not pass
    marks: str | None = None  # a mark whose key begins so is there; "": there is none
    make: Make | None = None
    slow: bool = False  # waits for a wall clock
    extra: Files = field(default_factory=dict)  # further files beside those of the lab

    @property
    def id(self) -> str:
        return f"{self.number:02d}{self.tag}"

    def files(self, fill: Callable[[str], str] = lambda text: text) -> dict[str, str]:
        """The text of the lab's files."""
        made = {"guess": hand_ins.guessing, "stub": hand_ins.stub, "right": hand_ins.right}
        files = made[self.base]()
        if self.first:
            files = hand_ins.with_code(files, fill(self.first), *self.where)
        if self.last:
            files |= {name: f"{files[name]}\n{fill(self.last)}\n" for name in self.where}
        return files


def filled(text: str, places: Mapping[str, object]) -> str:
    """``text`` with every ``$NAME`` replaced; a name that has no place is a mistake of ours."""
    return _NAMES.sub(lambda match: str(places[match[0][1:]]), text)

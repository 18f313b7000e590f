"""The journal of a grading, one file per hand-in, so that nothing is graded twice or lost.

Each record is written when its hand-in is done, and carries the hash of everything it depends on:
the hand-in itself, the lab and its checks, the cases, the grader, and the releases it runs on. A
later run takes what still holds and grades the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from autograder.course.atomic import write_atomic
from autograder.course.labfile import GRADER, ROOT
from autograder.course.plain import to_plain
from autograder.course.records import CheckResult, HandIn, Lab, LazyHandIns, Submission
from autograder.grading.judge_process import banks
from autograder.report.class_file import hand_in_from_plain, hand_in_to_plain

FOLDER = ".records"
# Rooms whose code decides about results; the others only show them.
_GRADER = (
    "wire", "worker", "course", "sandbox", "reference", "checks", "diagnosis", "judge", "intake",
    "grading",
)  # fmt: skip


def context(lab: Lab, cases: Iterable[Path], versions: Mapping[str, str]) -> bytes:
    """Hash of all that a record depends on beside its hand-in.

    Args:
        lab: its folder's ``lab.toml`` and checks are read.
        cases: files of the cases that are asked, hidden ones and those on real weights too.
        versions: releases that grade.
    """
    state = hashlib.sha256(json.dumps(dict(versions), sort_keys=True).encode())
    files = [lab.folder / "lab.toml", *sorted((lab.folder / "checks").rglob("*.py"))]
    files += sorted((ROOT / "labs" / "given").rglob("*.py"))
    for room in _GRADER:
        files += sorted((GRADER / room).rglob("*.py"))
    files += [lab.folder / "cases.safetensors", *banks(lab).values()]
    for path in (*files, *cases):
        data = path.read_bytes() if path.exists() else b""
        state.update(f"{path.name} {len(data)}\n".encode())
        state.update(data)
    return state.digest()


def file_name(student: str) -> str:
    """The file of a student's record."""
    return f"{student}.json"


class Journal:
    """The records of one output folder.

    Args:
        folder: where they lie; made when the first one is written.
        lab: what is graded.
        context: see :func:`context`; a record of another one is not taken.
    """

    def __init__(self, folder: Path, lab: Lab, context: bytes) -> None:
        self._folder = folder
        self._lab = lab
        self._context = context

    def known(self, submission: Submission) -> HandIn | None:
        """The record of this very hand-in; None if there is none that still holds.

        One that left a check ungraded through a fault of ours is not taken either: it deserves
        another try.
        """
        try:
            data = json.loads(self._path(submission.student).read_text(encoding="utf-8"))
            hand_in = hand_in_from_plain(data["hand_in"])
            key = data["key"]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None  # absent, or not as we wrote it: grade again
        if key != self._key(submission) or any(map(_our_fault, hand_in.results)):
            return None
        return hand_in

    def read(self, student: str) -> HandIn:
        """The record of a student, whatever it was made of.

        Raises:
            OSError, ValueError: it is absent or damaged: somebody has changed the folder.
        """
        data = json.loads(self._path(student).read_text(encoding="utf-8"))
        return hand_in_from_plain(data["hand_in"])

    def keep(self, submission: Submission, hand_in: HandIn) -> None:
        """Write the record of a hand-in.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        data = {"key": self._key(submission), "hand_in": hand_in_to_plain(self._lab, hand_in)}
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        write_atomic(self._path(submission.student), text, durable=True)

    def _path(self, student: str) -> Path:
        return self._folder / file_name(student)

    def _key(self, submission: Submission) -> str:
        text = json.dumps(to_plain(submission), sort_keys=True)
        return hashlib.sha256(self._context + text.encode()).hexdigest()


class JournalHandIns(LazyHandIns):
    """Hand-ins by student, read from the journal whenever they are looked at.

    Args:
        book: holds those of ``students``.
        students: who was graded.
        others: records that are at hand already.
        finish: what is done to a record of the journal before it is shown.
    """

    def __init__(
        self,
        book: Journal,
        students: Iterable[str],
        others: Mapping[str, HandIn],
        finish: Callable[[HandIn], HandIn],
    ) -> None:
        self._book = book
        self._others = others
        self._finish = finish
        self._graded = frozenset(students)
        self._order = sorted(self._graded | set(others))

    def __len__(self) -> int:
        return len(self._order)

    def _at(self, place: int) -> HandIn:
        student = self._order[place]
        if student in self._graded:
            return self._finish(self._book.read(student))
        return self._others[student]


class FinishedHandIns(LazyHandIns):
    """Hand-ins, each with something done to it whenever it is looked at."""

    def __init__(self, hand_ins: Sequence[HandIn], finish: Callable[[HandIn], HandIn]) -> None:
        self._hand_ins, self._finish = hand_ins, finish

    def __len__(self) -> int:
        return len(self._hand_ins)

    def _at(self, place: int) -> HandIn:
        return self._finish(self._hand_ins[place])


def _our_fault(result: CheckResult) -> bool:
    faults = ("check.grader_fault", "check.hidden_fault")
    return result.message is not None and result.message.key in faults

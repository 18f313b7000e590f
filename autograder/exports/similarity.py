"""Hand-ins and base files in the layout that JPlag and compare50 read; no detector of our own.

JPlag (read in its ``docs/1.-How-to-Use-JPlag.md``): a root directory with a directory per
submission, and ``-bc`` with that of the base code. compare50 (read in its ``docs/source/index.rst``
and ``compare50/__main__.py``): a path per submission, ``-d`` with the files that were handed out,
whose contents are left out of the comparison. One layout serves both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder import intake
from autograder.course.messages import render
from autograder.course.records import LANGUAGES, Lab, Message
from autograder.exports.people import listed
from autograder.exports.sheet import ExportError
from autograder.intake import attempts
from autograder.intake.tree import Entry

SUBMISSIONS, BASE, README = "submissions", "base", "README.md"
# As they are typed in the folder of the bundle.
JPLAG = f"java -jar jplag.jar {SUBMISSIONS} -l python3 -bc {BASE} -r jplag-result"
COMPARE50 = f'compare50 {SUBMISSIONS}/* -d {BASE}/* -i "*.py" -o compare50-result'


@dataclass(frozen=True)
class Bundle:
    """The number of hand-ins that were written, and what is left open."""

    count: int
    open: tuple[Message, ...]


def write(
    submissions: Path, lab: Lab, base: Mapping[str, str], to: Path, pattern: str | None = None
) -> Bundle:
    """Write the bundle: what intake reads of each hand-in, that is, of notebooks their cells.

    Of several attempts the last one is taken, as for grading. The folder appears when it is whole.

    Args:
        submissions: the class, as ``grade`` takes it.
        base: the lab's files as they were handed out, by name.
        to: a folder that is not there, or empty.
        pattern: how a hand-in's name tells the student.

    Raises:
        ExportError: ``to`` holds something, or lies among the hand-ins.
        SourceError: the hand-ins cannot be listed.
    """
    if os.path.lexists(to) and (not to.is_dir() or any(to.iterdir())):
        raise ExportError("not_empty", to)
    if submissions.resolve() in (to.resolve(), *to.resolve().parents):
        raise ExportError("among_hand_ins", to)
    survey = intake.survey(submissions, lab, pattern)
    entries = attempts.last(survey.entries)
    to.parent.mkdir(parents=True, exist_ok=True)
    making = to.with_name(f".{to.name}.{os.getpid()}.tmp")
    try:
        _files(making / BASE, base)
        count, left = _hand_ins(entries, lab, making / SUBMISSIONS)
        (making / README).write_text(_readme(lab), encoding="utf-8", newline="\n")
        if to.is_dir():
            to.rmdir()
        making.rename(to)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return Bundle(count, (*survey.remarks, *left))


def _hand_ins(entries: Sequence[Entry], lab: Lab, folder: Path) -> tuple[int, list[Message]]:
    """A folder each; returns how many, and who lacks something."""
    folder.mkdir(parents=True)
    nothing: list[str] = []
    part: list[str] = []
    with intake.fenced() as read:
        for entry in entries:
            files = read(entry, lab).files  # only the lab's, by plain name
            if files:
                _files(folder / entry.student, files)
            if len(files) < len(lab.files):
                (part if files else nothing).append(entry.student)
    left = {"bundle_nothing": nothing, "bundle_part": part}
    remarks = [Message(f"export.{key}", {"who": listed(who)}) for key, who in left.items() if who]
    return len(entries) - len(nothing), remarks


def _files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.encode("utf-8", "replace"))


def _readme(lab: Lab) -> str:
    """Return what lies here and what to run, in both languages."""
    pages = []
    for language in LANGUAGES:
        values = {"lab": lab.title.in_(language), "jplag": JPLAG, "compare50": COMPARE50}
        pages.append(render(Message("export.bundle_readme", values), language))
    return "\n\n".join(pages) + "\n"

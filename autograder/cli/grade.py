"""``grade``: a folder of hand-ins in, scores and reports out; nothing that is done is lost."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder import intake
from autograder.cli.class_run import ClassRun, Wanted
from autograder.cli.say import remark
from autograder.course import labfile
from autograder.course.records import ClassRecord, Lab
from autograder.grading import outfolder
from autograder.intake import attempts, roster
from autograder.intake.enrolment import Enrolment
from autograder.intake.entry import Entry
from autograder.report.record import from_json
from autograder.sandbox.jail import harden_parent


def run(wanted: Wanted) -> int:
    """Grade and write.

    Returns:
        0 when everything could be graded, 1 when something is left to a human because it
        could not be graded, 2 when grading could not start or go on, 3 when isolation is too
        weak, 130 when it was interrupted.
    """
    harden_parent()  # the secret stands in this process, too
    lab = labfile.load(labfile.find_lab(wanted.lab))
    survey = intake.survey(wanted.submissions, lab, wanted.pattern)
    for message in survey.remarks:
        remark(wanted.language, message)
    entries: Sequence[Entry] = survey.entries
    if wanted.attempt == "last":
        entries = attempts.last(entries)
    listed = roster.read(wanted.roster) if wanted.roster else ()
    if wanted.only:
        entries = _only(entries, wanted)
    outfolder.apart(wanted.submissions, wanted.out)
    with outfolder.claimed(wanted.out):
        before = _before(wanted.out, lab) if wanted.only else None
        if before is None:
            outfolder.same_class(wanted.out, lab.name, {entry.student for entry in entries})
        else:
            listed = listed or before.missing  # whoever has handed in since is missing no more
        missing = roster.missing(listed, survey.entries)
        grading = ClassRun(wanted, lab, entries, Enrolment(listed), missing, survey.remarks, before)
        with _ending_by_sigterm_too():
            return grading.run()


@contextlib.contextmanager
def _ending_by_sigterm_too() -> Iterator[None]:
    """Let a polite kill end grading as Ctrl-C does: what is done is written."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _only(entries: Sequence[Entry], wanted: Wanted) -> list[Entry]:
    """The entries of the students of ``--only``; with all attempts where the best one counts.

    Raises:
        ValueError: one of them is not there.
    """
    known = {entry.student: entry for entry in entries}
    absent = [student for student in wanted.only if student not in known]
    if absent:
        raise ValueError(
            f"--only: no hand-in of {outfolder.named(absent)}; "
            f"there are {outfolder.named(sorted(known))}"
        )
    chosen = [known[student] for student in dict.fromkeys(wanted.only)]
    if wanted.attempt == "last":
        return chosen
    whose = {attempts.people(entry) for entry in chosen}
    return [entry for entry in entries if attempts.people(entry) in whose]


def _before(out: Path, lab: Lab) -> ClassRecord | None:
    """The class that was graded into ``out``, which ``--only`` adds to; None if there is none.

    Raises:
        ValueError: it is not one of ours, or of another lab.
    """
    if not (out / "class.json").exists():
        return None
    before = read_class(out)
    outfolder.same_lab(out, before.lab.name, lab.name)
    return before


def read_class(out: Path) -> ClassRecord:
    """``OUT/class.json``.

    Raises:
        ValueError: it is absent or not one of ours (names it and the mend).
    """
    path = out / "class.json"
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        text = error.strerror if isinstance(error, OSError) else f"damaged ({error})"
        raise ValueError(f"{path}: {text}; give the folder that grade has written") from None

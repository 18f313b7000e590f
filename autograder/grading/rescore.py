"""``report`` and ``rescore``: what was graded once, shown or judged anew. No hand-in runs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from autograder.course import course_file, labfile
from autograder.course.late import LateRules
from autograder.course.plain import from_plain
from autograder.course.records import (
    CheckResult,
    ClassRecord,
    HandIn,
    Lab,
    Message,
    Override,
    Submission,
)
from autograder.course.score import score_of
from autograder.grading import hidden_cases, late, output_folder, overrides
from autograder.grading.engine import Engine, digests, kept_name, order_of
from autograder.grading.journal import FinishedHandIns
from autograder.grading.judge_process import EngineError, Options, RealWeights
from autograder.grading.options import language as language_of
from autograder.grading.options import there
from autograder.grading.review_list import STALE, ReviewList, undecided_if_unread
from autograder.grading.shards import OUTPUTS
from autograder.intake.extensions import Clock
from autograder.intake.people import Directory
from autograder.judge.marks import OF_TEXT
from autograder.report import class_file, write
from autograder.report.class_file import hand_in_from_plain, hand_in_to_plain
from autograder.report.class_summary import Summary, look
from autograder.report.table import ClassTable
from autograder.report.terminal import say
from autograder.sandbox.recording import KeptTransport, hand_in_of


def report(out: Path, language: str) -> int:
    """Write all reports again from ``OUT/class.json``.

    Raises:
        ValueError: the file is absent or not one of ours (names it and the mend).
    """
    with _class_in(out) as record:
        shown = _Pages(record, out, language)
        look(record.hand_ins, shown.summaries)
        shown.end()
        return 0


@contextmanager
def _class_in(out: Path) -> Iterator[ClassRecord]:
    """The class in ``out``, kept from other runs; where there is none no folder is made.

    Raises:
        ValueError: the file is absent or not one of ours (names it and the mend).
    """
    if not (out / "class.json").is_file():
        class_file.read(out)  # says so
    with output_folder.claimed(out):
        yield class_file.read(out)


def rescore(arguments: argparse.Namespace) -> int:
    """Apply the lab's points, limits and cases of today, and overrides, to a graded class.

    Checks are judged again on what the hand-ins answered when ``grade --keep-outputs`` asked
    them; of hand-ins without kept outputs, or with those of other files than were graded last,
    the results stay, and only overrides are applied. Which attempt is the best one is not chosen
    anew: whoever has several gets a mark where that may have changed. Secret, course file and
    overrides are those of ``arguments``, else those that the class was graded with, as they are
    now; where that course file is gone, what lateness costs stays as it was.

    Returns:
        As ``grade`` does.

    Raises:
        ValueError: no graded class, overrides that cannot be used, or another secret than when
            the outputs were kept.
    """
    out: Path = arguments.out
    known = output_folder.read(out)
    language = language_of(arguments, known)
    decisions = arguments.overrides or (known.overrides if known else None)
    secret_file = arguments.secret_file or (known.secret_file if known else None)
    course = arguments.course or (there(known.course) if known else None)
    with _class_in(out) as record:
        lab = labfile.load(labfile.find_lab(record.lab.name))
        everybody = Directory(record.hand_ins, record.missing)
        decided = overrides.given(decisions, out, lab, everybody)
        rules = late.resolved(late.read(course, lab) if course else record.late_rules, everybody)
        kept = _kept(record.hand_ins, out / OUTPUTS)
        clock, before = Clock(rules), record
        with TemporaryFile(dir=out) as room:
            judged = _JudgedRecords(room)
            if kept:
                try:
                    _judge(lab, kept, judged, out, secret_file)
                except EngineError as error:
                    say(language, "cannot_start", text=error)
                    return 2
            if len(judged) < len(record.hand_ins):
                without = [h.student for h in record.hand_ins if h.student not in judged]
                say(language, "not_kept", students=output_folder.named(without))
            hand_ins = FinishedHandIns(
                record.hand_ins,
                lambda one: overrides.applied(
                    _with_doubt(clock.timed(judged.over(one)), one, lab, rules, before), decided
                ),
            )
            late.keep(out, rules)
            record = replace(record, lab=lab, hand_ins=hand_ins, late_rules=rules)
            status = _rescored(record, out, decided, language)
        if known is not None:
            extensions = course_file.read(course).extensions if course else None
            new = replace(known, language=language, course=course, extensions=extensions)
            output_folder.write(out, replace(new, overrides=decisions, secret_file=secret_file))
        return status


def _with_doubt(
    new: HandIn, old: HandIn, lab: Lab, rules: LateRules | None, before: ClassRecord
) -> HandIn:
    """The record, marked where another attempt might have been chosen as the best one."""
    several = any(note.key == "intake.best_attempt" for note in new.notes)
    if not several or any(mark.key == STALE for mark in new.marks):
        return new
    same = _for_all(rules) == _for_all(before.late_rules) and (
        new.lateness == Clock(before.late_rules).timed(old).lateness
    )
    if same and score_of(lab, new).earned == score_of(before.lab, old).earned:
        return new
    return replace(new, marks=(*new.marks, Message(STALE)))


def _for_all(rules: LateRules | None) -> LateRules | None:
    return replace(rules, extensions=()) if rules else None


def _rescored(record: ClassRecord, out: Path, decided: Sequence[Override], language: str) -> int:
    """Write everything; the exit status."""
    human = ReviewList(record.lab, decided, record.late_rules, record.missing)
    shown = _Pages(record, out, language)
    write.class_files(record, out, [*shown.summaries, human])
    shown.end()
    return human.said(language)


class _JudgedRecords:
    """Records that were judged again, by student, in a file: a class need not be in memory."""

    def __init__(self, room: IO[bytes]) -> None:
        self._room = room
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, student: str) -> bool:
        return student in self._places

    def take(self, lab: Lab, student: str, judged: HandIn) -> None:
        """One more; ``student`` is who it counts for."""
        self._places[student] = self._room.seek(0, os.SEEK_END)
        text = json.dumps(hand_in_to_plain(lab, judged), allow_nan=False)
        self._room.write(text.encode() + b"\n")

    def over(self, old: HandIn) -> HandIn:
        """A hand-in with the results of now; what did not come from checks stays as it was."""
        if old.student not in self:
            return old
        self._room.seek(self._places[old.student])
        judged = undecided_if_unread(hand_in_from_plain(json.loads(self._room.readline())))
        stay = [mark for mark in old.marks if mark.key not in OF_TEXT]
        return replace(
            old,
            results=_with_old_reasons(judged.results, old.results),
            marks=(*judged.marks, *stay),
            findings=judged.findings,
        )


def _kept(hand_ins: Iterable[HandIn], folder: Path) -> dict[str, str]:
    """Return whose outputs lie in ``folder``, by the id under which they were graded.

    The attempt that counts stands under its person's id; it may have been graded as ``ID-2``, ….
    """
    found: dict[str, str] = {}
    if not folder.is_dir():
        return found
    for hand_in in hand_ins:
        student, number = hand_in.student, 1
        while (path := folder / kept_name(student)).exists():
            try:
                if digests(hand_in_of(path)["files"]) == hand_in.digests:
                    found[student] = hand_in.student
                    break
            except (OSError, ValueError, LookupError, AttributeError):
                pass  # damaged: as if it were not there
            number += 1
            student = f"{hand_in.student}-{number}"
    return found


def _judge(
    lab: Lab, kept: Mapping[str, str], judged: _JudgedRecords, out: Path, secret_file: Path | None
) -> None:
    """Run the checks on kept outputs."""
    folder = (out / OUTPUTS).resolve()
    if secret_file is None and hidden_cases.VARIABLE not in os.environ:
        secret_file = out / hidden_cases.NAME  # a new one would help nobody
    key = hidden_cases.find(secret_file, out, again=True, remember=False)
    for student in kept:
        path = folder / kept_name(student)
        if hand_in_of(path).get("order") != order_of(key, student):
            raise ValueError(
                f"{path}: kept with another secret; give the --secret-file that grade was given, "
                "or grade this hand-in again"
            )
    hidden = hidden_cases.hidden_cases(lab.name, out, key)
    real = out / ".cases" / "real.safetensors"
    weights = RealWeights(real.resolve(), Path(), (), 0) if real.exists() else None
    options = Options(hidden_cases=hidden, real=weights, order_seed=key, kept=folder)
    with Engine(lab, options) as engine:
        engine.wait_ready()
        for hand_in in engine.grade(_submissions(kept, folder)):
            judged.take(lab, kept[hand_in.student], hand_in)


def _with_old_reasons(
    results: tuple[CheckResult, ...], old: tuple[CheckResult, ...]
) -> tuple[CheckResult, ...]:
    """Why there were no real weights is known from then."""
    before = {result.check: result for result in old}
    return tuple(
        before.get(r.check, r) if r.message and r.message.key == "check.no_weights" else r
        for r in results
    )


def _submissions(kept: Iterable[str], folder: Path) -> Iterator[Submission]:
    """The hand-ins as they were read when their outputs were kept."""
    for student in kept:
        try:
            told = KeptTransport(folder / kept_name(student)).hand_in
        except (OSError, ValueError):
            continue  # its results stay as they are, and it is named
        problems = from_plain(dict[str, Message], told["problems"])
        yield Submission(student, told["files"], (), problems)


class _Pages:
    """Every student's reports, the class's pages, and the table on the terminal."""

    def __init__(self, record: ClassRecord, out: Path, language: str) -> None:
        self._record, self._out, self._language = record, out, language
        self._table = ClassTable(record.lab, language)
        self._overview = write.Overview(record.lab)
        reports = write.Reports(record, out, language)
        self.summaries: tuple[Summary, ...] = (reports, self._table, self._overview)

    def end(self) -> None:
        """All hand-ins were taken."""
        told = self._overview.write(self._record, self._out, self._language)
        table = self._table.text(self._record.isolation, self._record.missing)
        print(table, *told, sep="\n")

"""``report`` and ``rescore``: what was graded once, shown or judged anew. No hand-in runs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autograder.cli.grade import read_class
from autograder.cli.human import ForAHuman
from autograder.cli.say import say
from autograder.cli.wanted import language as language_of
from autograder.cli.wanted import there
from autograder.course import course_file, labfile
from autograder.course.plain import message_from_plain
from autograder.course.records import CheckResult, ClassRecord, HandIn, Lab, Submission
from autograder.grading import grade_file, late, outfolder, overrides, prepare, secret
from autograder.grading.engine import (
    Engine,
    EngineError,
    Options,
    digests,
    kept_name,
    order_of,
)
from autograder.grading.gather import OUTPUTS
from autograder.harness.marks import OF_TEXT
from autograder.intake.enrolment import Directory
from autograder.intake.extensions import Clock
from autograder.report import write
from autograder.report.one_pass import Summary, look
from autograder.report.table import ClassTable
from autograder.sandbox.kept import KeptTransport, hand_in_of


def report(out: Path, language: str) -> int:
    """Write all reports again from ``OUT/class.json``.

    Raises:
        ValueError: the file is absent or not one of ours (names it and the mend).
    """
    read_class(out)  # before a folder of that name is made
    with outfolder.claimed(out):
        record = read_class(out)
        shown = _Shown(record, out, language)
        look(record.hand_ins, shown.summaries)
        shown.end()
        return 0


def rescore(arguments: argparse.Namespace) -> int:
    """Apply the lab's points, limits and cases of today, and overrides, to a graded class.

    Checks are judged again on what the hand-ins answered when ``grade --keep-outputs`` asked
    them; of hand-ins without kept outputs, or with those of other files than were graded last,
    the results stay, and only overrides are applied. Secret, course file and overrides are those
    of ``arguments``, else those that the class was graded with, as they are now; where that
    course file is gone, what lateness costs stays as it was.

    Returns:
        As ``grade`` does.

    Raises:
        ValueError: no graded class, overrides that cannot be used, or another secret than when
            the outputs were kept.
    """
    out: Path = arguments.out
    known = grade_file.read(out)
    language = language_of(arguments, known)
    decisions = arguments.overrides or (known.overrides if known else None)
    secret_file = arguments.secret_file or (known.secret_file if known else None)
    course = arguments.course or (there(known.course) if known else None)
    read_class(out)
    with outfolder.claimed(out):
        record = read_class(out)
        lab = labfile.load(labfile.find_lab(record.lab.name))
        everybody = Directory(record.hand_ins, record.missing)
        decided = overrides.given(decisions, out, lab, everybody)
        rules = late.resolved(late.read(course, lab) if course else record.late_rules, everybody)
        kept = _kept(record.hand_ins, out / OUTPUTS)
        judged: dict[str, HandIn] = {}
        if kept:
            try:
                judged = _judged(lab, kept, out, secret_file)
            except EngineError as error:
                say(language, "cannot_start", text=error)
                return 2
        if len(judged) < len(record.hand_ins):
            without = [h.student for h in record.hand_ins if h.student not in judged]
            say(language, "not_kept", students=outfolder.named(without))
        clock = Clock(rules)
        hand_ins = tuple(
            overrides.applied(clock.timed(judged.get(h.student, h)), decided)
            for h in record.hand_ins
        )
        record = replace(record, lab=lab, hand_ins=hand_ins, late_rules=rules)
        human = ForAHuman(lab, decided, rules, record.missing)
        shown = _Shown(record, out, language)
        write.class_files(record, out, [*shown.summaries, human])
        if known is not None:
            extensions = course_file.read(course).extensions if course else None
            new = replace(known, language=language, course=course, extensions=extensions)
            new = replace(new, overrides=decisions, secret_file=secret_file)
            grade_file.write(out, new)
        shown.end()
        return human.said(language)


def _kept(hand_ins: Sequence[HandIn], folder: Path) -> dict[str, HandIn]:
    """The hand-ins whose outputs lie in ``folder``, by the id under which they were graded.

    The attempt that counts stands under its person's id; it may have been graded as ``ID-2``, ….
    """
    found = {}
    for hand_in in hand_ins:
        student, number = hand_in.student, 1
        while (path := folder / kept_name(student)).exists():
            try:
                if digests(hand_in_of(path)["files"]) == hand_in.digests:
                    found[student] = hand_in
                    break
            except (OSError, ValueError, LookupError, AttributeError):
                pass  # damaged: as if it were not there
            number += 1
            student = f"{hand_in.student}-{number}"
    return found


def _judged(
    lab: Lab, kept: Mapping[str, HandIn], out: Path, secret_file: Path | None
) -> dict[str, HandIn]:
    """Run the checks on kept outputs; what did not come from checks stays as it was."""
    folder = (out / OUTPUTS).resolve()
    if secret_file is None and secret.VARIABLE not in os.environ:
        secret_file = out / secret.NAME  # a new one would help nobody
    key = secret.find(secret_file, out)
    for student in kept:
        path = folder / kept_name(student)
        if hand_in_of(path).get("order") != order_of(key, student):
            raise ValueError(
                f"{path}: kept with another secret; give the --secret-file that grade was given, "
                "or grade this hand-in again"
            )
    hidden = prepare.hidden_cases(lab.name, out, key)
    real = out / ".cases" / "real.safetensors"
    weights = prepare.RealWeights(real.resolve(), Path(), (), 0) if real.exists() else None
    options = Options(hidden_cases=hidden, real=weights, order_seed=key, kept=folder)
    found = {}
    with Engine(lab, options) as engine:
        engine.wait_ready()
        for hand_in in engine.grade(_submissions(kept, folder)):
            old = kept[hand_in.student]
            stay = [mark for mark in old.marks if mark.key not in OF_TEXT]
            marks = (*hand_in.marks, *stay)
            results = _with_old_reasons(hand_in.results, old.results)
            found[old.student] = replace(
                old, results=results, marks=marks, findings=hand_in.findings
            )
    return found


def _with_old_reasons(
    results: tuple[CheckResult, ...], old: tuple[CheckResult, ...]
) -> tuple[CheckResult, ...]:
    """Why there were no real weights is known from then."""
    before = {result.check: result for result in old}
    return tuple(
        before.get(r.check, r) if r.message and r.message.key == "check.no_weights" else r
        for r in results
    )


def _submissions(kept: Mapping[str, HandIn], folder: Path) -> Iterator[Submission]:
    """The hand-ins as they were read when their outputs were kept."""
    for student in kept:
        try:
            told = KeptTransport(folder / kept_name(student)).hand_in
        except (OSError, ValueError):
            continue  # its results stay as they are, and it is named
        problems = {name: message_from_plain(raw) for name, raw in told["problems"].items()}
        yield Submission(student, told["files"], (), problems)


class _Shown:
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

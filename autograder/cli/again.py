"""``report`` and ``rescore``: what was graded once, shown or judged anew. No hand-in runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autograder.cli.class_run import OUTPUTS, for_a_human
from autograder.cli.grade import read_class
from autograder.cli.say import say
from autograder.course import labfile
from autograder.course.plain import message_from_plain
from autograder.course.records import CheckResult, ClassRecord, HandIn, Lab, Submission
from autograder.grading import outfolder, overrides, prepare, secret
from autograder.grading.engine import Engine, EngineError, Options, kept_name
from autograder.report import write
from autograder.report.table import class_table
from autograder.sandbox.kept import KeptTransport


def report(out: Path, language: str) -> int:
    """Write all reports again from ``OUT/class.json``.

    Raises:
        ValueError: the file is absent or not one of ours (names it and the mend).
    """
    read_class(out)  # before a folder of that name is made
    with outfolder.claimed(out):
        return _written(read_class(out), out, language)


def rescore(out: Path, decisions: Path | None, secret_file: Path | None, language: str) -> int:
    """Apply the lab's points, limits and cases of today, and overrides, to a graded class.

    Checks are judged again on what the hand-ins answered when ``grade --keep-outputs`` asked
    them; of hand-ins without kept outputs the results stay, and only overrides are applied.

    Returns:
        As ``grade`` does.

    Raises:
        ValueError: no graded class, or overrides that cannot be used.
    """
    read_class(out)
    with outfolder.claimed(out):
        record = read_class(out)
        lab = labfile.load(labfile.find_lab(record.lab.name))
        decided = overrides.read(decisions or out / overrides.NAME, lab)
        kept = [h for h in record.hand_ins if (out / OUTPUTS / kept_name(h.student)).exists()]
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
        hand_ins = tuple(
            overrides.applied(judged.get(h.student, h), decided) for h in record.hand_ins
        )
        record = replace(record, lab=lab, hand_ins=hand_ins)
        lost = overrides.strangers(decided, (h.student for h in hand_ins))
        if lost:
            say(language, "strangers", students=outfolder.named(lost))
        write.class_files(record, out)
        _written(record, out, language)
        return for_a_human(record, language)


def _judged(lab: Lab, kept: list[HandIn], out: Path, secret_file: Path | None) -> dict[str, HandIn]:
    """Run the checks on kept outputs; what did not come from checks stays as it was."""
    folder = (out / OUTPUTS).resolve()
    key = secret.find(secret_file, out)
    hidden = prepare.hidden_cases(lab.name, out, key)
    real = out / ".cases" / "real.safetensors"
    weights = prepare.RealWeights(real.resolve(), Path(), (), 0) if real.exists() else None
    options = Options(hidden_cases=hidden, real=weights, order_seed=key, kept=folder)
    before = {hand_in.student: hand_in for hand_in in kept}
    found = {}
    with Engine(lab, options) as engine:
        engine.wait_ready()
        for hand_in in engine.grade(_submissions(kept, folder)):
            old = before[hand_in.student]
            stay = [mark for mark in old.marks if mark.key == "check.state_carries_over"]
            marks = (*hand_in.marks, *stay)
            results = _with_old_reasons(hand_in.results, old.results)
            found[hand_in.student] = replace(old, results=results, marks=marks)
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


def _submissions(kept: list[HandIn], folder: Path) -> Iterator[Submission]:
    """The hand-ins as they were read when their outputs were kept."""
    for hand_in in kept:
        try:
            told = KeptTransport(folder / kept_name(hand_in.student)).hand_in
        except (OSError, ValueError):
            continue  # its results stay as they are, and it is named
        problems = {name: message_from_plain(raw) for name, raw in told["problems"].items()}
        yield Submission(hand_in.student, told["files"], (), problems)


def _written(record: ClassRecord, out: Path, language: str) -> int:
    for hand_in in record.hand_ins:
        write.student_reports(record, hand_in, out, language)
    print(class_table(record, language))
    return 0

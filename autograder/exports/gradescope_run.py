"""The program of Gradescope's container: one hand-in in, ``results.json`` out.

``python -m autograder.exports.gradescope_run ROOT`` (``/autograder`` there) always writes
``ROOT/results/results.json``; what goes wrong on our side is told there without a score, and to the
instructor, who sees what is printed. ``prepare`` as a second argument only builds the hidden cases
and tries the grader, while the image is built.
"""

from __future__ import annotations

import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder import intake
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.late import LateRules
from autograder.course.records import ClassRecord, HandIn, Lab, Submission
from autograder.exports import gradescope
from autograder.exports.gradescope import SETTINGS, Settings, read_settings
from autograder.grading import hidden_cases, late
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options, versions
from autograder.grading.review_list import marked
from autograder.intake.extensions import Clock
from autograder.intake.people import Directory
from autograder.worker.jail import harden_parent

LEVELS = ("weak", "medium", "strong")


class WeakError(RuntimeError):
    """This container isolates less than was asked for; the text says how to go on."""


def main(argv: list[str]) -> int:
    """Grade ``ROOT/submission``; the exit status is 0 unless grading failed."""
    root = Path(argv[1])
    source = labfile.ROOT.parent
    settings = read_settings(source / SETTINGS)
    lab = labfile.load(labfile.find_lab(settings.lab))
    if argv[2:] == ["prepare"]:
        _graded(lab, settings, source, Submission("nobody", {}))
        return 0
    path, status = root / "results" / "results.json", 0
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        document = _document(lab, settings, root, source)
    except (Exception, KeyboardInterrupt):  # whatever it is: it is ours, and costs nobody points
        traceback.print_exc(file=sys.stdout)  # the instructor's window, students do not see it
        document, status = gradescope.not_graded(lab, settings.language), 1
    write_atomic(path, gradescope.text_of(document))
    return status


def _document(lab: Lab, settings: Settings, root: Path, source: Path) -> dict[str, Any]:
    began = time.monotonic()
    student, origin = gradescope.read_metadata(root / "submission_metadata.json")
    entry = intake.Entry(student, root / "submission", origin=origin)
    with intake.fenced() as read:
        submission = read(entry, lab)
    record = _graded(lab, settings, source, submission)
    hand_in = _timed(record.hand_ins[0], settings.rules)
    print(f"isolation: {record.isolation.level} ({', '.join(record.isolation.layers)})")
    return gradescope.results(record, hand_in, settings.language, time.monotonic() - began)


def _timed(hand_in: HandIn, rules: LateRules | None) -> HandIn:
    """With how late it is, extensions by email or display name: Gradescope has ids of its own."""
    if rules is None:
        return hand_in
    people = tuple(replace(one, id="") for one in hand_in.origin.students)
    known = replace(hand_in, origin=replace(hand_in.origin, students=people))
    clock = Clock(late.resolved(rules, Directory([known])))
    return replace(hand_in, lateness=clock.timed(known).lateness)


def _graded(lab: Lab, settings: Settings, source: Path, submission: Submission) -> ClassRecord:
    """The class of this one hand-in.

    Raises:
        WeakError: see there.
        PrepareError, SecretError, EngineError: the grader cannot work here.
    """
    harden_parent()
    state = source / "state"
    key = hidden_cases.find(source / "secret", state)
    hidden = hidden_cases.hidden_cases(lab.name, state, key)
    with Engine(lab, Options(hidden_cases=hidden, order_seed=key)) as engine:
        engine.wait_ready()
        level = engine.isolation.level
        if LEVELS.index(level) < LEVELS.index(settings.least):
            raise WeakError(
                f"this container gives the isolation level {level}, and {settings.least} was asked "
                "for: export the autograder again with --allow-weak-isolation if you trust these "
                "students, or grade on a machine of your own"
            )
        hand_ins: tuple[HandIn, ...] = tuple(map(marked, engine.grade(iter([submission]))))
        return ClassRecord(
            lab,
            engine.isolation,
            versions(),
            hand_ins,
            hidden_cases=engine.counts["hidden"],
            public_cases=engine.counts["public"],
            late_rules=settings.rules,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv))

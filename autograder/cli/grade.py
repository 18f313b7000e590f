"""``grade``: a folder of hand-ins in, scores and reports out."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import ClassRecord, HandIn, Message
from autograder.course.score import points_of
from autograder.grading import intake, prepare, secret
from autograder.grading.engine import Engine, EngineError, Options
from autograder.grading.versions import versions
from autograder.report import write
from autograder.report.escape import line
from autograder.report.record import from_json
from autograder.report.table import class_table

LEVELS = ("weak", "medium", "strong")


def run(
    *,
    submissions: Path,
    lab_name: str,
    out: Path,
    secret_file: Path | None,
    jobs: int,
    weights: str | None,
    least: str,
    language: str,
) -> int:
    """Grade and write; see ``python -m autograder grade --help``.

    Returns:
        0 when everything could be graded, 1 when something is left to a human because it
        could not be graded, 2 when grading could not start, 3 when isolation is too weak.
    """

    def say(key: str, **values: object) -> None:
        print(render(Message(f"grade.{key}", values), language), file=sys.stderr, flush=True)

    lab = labfile.load(labfile.find_lab(lab_name))
    entries = intake.find(submissions, lab)
    key = secret.find(secret_file, out)
    hidden = prepare.hidden_cases(lab.name, out, key)
    real = None
    if weights:
        try:
            real = prepare.real_weights(lab.name, out, weights)
        except prepare.PrepareError as error:
            say("no_weights", text=error)  # those checks stay ungraded, all others count
    options = Options(
        hidden_cases=hidden,
        real=real,
        jobs=max(1, min(jobs, len(entries))),
        order_seed=key,
    )
    done: list[HandIn] = []
    try:
        with Engine(lab, options) as engine:
            engine.wait_ready()
            if LEVELS.index(engine.isolation.level) < LEVELS.index(least):
                say("too_weak", level=engine.isolation.level, least=least)
                return 3
            record = ClassRecord(
                lab=lab,
                isolation=engine.isolation,
                versions=versions(),
                hand_ins=(),
                hidden_cases=engine.counts["hidden"],
                public_cases=engine.counts["public"],
            )
            read = (intake.read(entry, lab) for entry in entries)
            for hand_in in engine.grade(read):
                done.append(hand_in)
                write.student_reports(record, hand_in, out, language)
                score = points_of(lab, hand_in.results)
                say(
                    "progress",
                    number=len(done),
                    count=len(entries),
                    student=line(hand_in.student),
                    earned=score.earned,
                    total=score.total,
                )
    except EngineError as error:
        say("cannot_start", text=error)
        return 2
    done.sort(key=lambda hand_in: hand_in.student)
    record = replace(record, hand_ins=tuple(done))
    files = write.class_files(record, out)
    print(class_table(record, language))
    say("written", out=out, files=", ".join(path.name for path in files))
    say("isolation", level=engine.isolation.level, layers=", ".join(engine.isolation.layers))
    undecided = [h.student for h in done if _undecided(record, h)]
    if undecided:
        say("undecided", students=", ".join(map(line, undecided[:20])))
    return 1 if undecided else 0


def _undecided(record: ClassRecord, hand_in: HandIn) -> bool:
    return points_of(record.lab, hand_in.results).undecided > 0


def report(out: Path, language: str) -> int:
    """Write all reports again from ``OUT/class.json``; nothing is graded.

    Raises:
        ValueError: the file is absent or not one of ours (names it and the mend).
    """
    path = out / "class.json"
    try:
        record = from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: {error}; give the folder that grade has written") from None
    for hand_in in record.hand_ins:
        write.student_reports(record, hand_in, out, language)
    print(class_table(record, language))
    return 0

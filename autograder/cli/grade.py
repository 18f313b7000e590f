"""``grade``: a folder of hand-ins in, scores and reports out."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import CheckResult, ClassRecord, HandIn, Message
from autograder.course.score import score_of
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
    _writable(out)
    _same_class(out, {entry.student for entry in entries})
    key = secret.find(secret_file, out)
    hidden = prepare.hidden_cases(lab.name, out, key)
    real, no_weights = None, Message("check.no_weights")
    if weights:
        try:
            real = prepare.real_weights(lab.name, out, weights)
        except prepare.PrepareError as error:  # those checks stay ungraded, all others count
            no_weights = Message("check.weights_unusable", {"text": str(error)})
            say("no_weights", text=error)
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
                hand_in = replace(hand_in, results=_with_reason(hand_in.results, no_weights))
                done.append(hand_in)
                write.student_reports(record, hand_in, out, language)
                score = score_of(lab, hand_in)
                say(
                    "progress_undecided" if score.undecided else "progress",
                    number=len(done),
                    count=len(entries),
                    student=line(hand_in.student),
                    earned=score.earned,
                    undecided=score.undecided,
                    total=score.total,
                )
    except EngineError as error:
        say("cannot_start", text=error)
        return 2
    except KeyboardInterrupt:
        if done:  # what is finished can be read, and rendered again
            write.class_files(replace(record, hand_ins=tuple(done)), out)
        say("interrupted", number=len(done), count=len(entries), out=out)
        return 130
    done.sort(key=lambda hand_in: hand_in.student)
    record = replace(record, hand_ins=tuple(done))
    files = write.class_files(record, out)
    print(class_table(record, language))
    say("written", out=out, files=", ".join(path.name for path in files))
    say("isolation", level=engine.isolation.level, layers=", ".join(engine.isolation.layers))
    undecided = [h.student for h in done if score_of(lab, h).undecided]
    if undecided:
        say("undecided", students=_named(undecided))
    unread = [h.student for h in done if _unread(h)]
    if unread:
        say("unread", students=_named(unread))
    return 1 if undecided or unread else 0


def _named(students: list[str]) -> str:
    more = f" … (+{len(students) - 20})" if len(students) > 20 else ""
    return ", ".join(map(line, students[:20])) + more


def _unread(hand_in: HandIn) -> bool:
    """Whether no file of a hand-in could be taken, so that nothing of it was graded."""
    return all(
        r.message is not None and r.message.key.startswith("intake.") for r in hand_in.results
    )


def _with_reason(results: tuple[CheckResult, ...], reason: Message) -> tuple[CheckResult, ...]:
    """Say why checks on real weights were not graded: none were given, or they do not load."""
    return tuple(
        replace(r, message=reason) if r.message and r.message.key == "check.no_weights" else r
        for r in results
    )


def _writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise ValueError(f"{out}: {error.strerror}; --out takes a folder to write to") from None


def _same_class(out: Path, students: set[str]) -> None:
    """Keep a class from being overwritten by another one, or by a part of it.

    Raises:
        ValueError: ``OUT/class.json`` holds students who are not in this class.
    """
    path = out / "class.json"
    if not path.exists():
        return
    try:
        known = {h["student"] for h in json.loads(path.read_text(encoding="utf-8"))["hand_ins"]}
    except (OSError, ValueError, KeyError, TypeError):
        return  # not one of ours, or broken: nothing to lose
    others = sorted(known - students)
    if others:
        raise ValueError(
            f"{path}: holds hand-ins that are not in this class ({_named(others)}); "
            "writing here would lose them: give another --out, or delete that file"
        )


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

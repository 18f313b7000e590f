"""``grade``: a folder of hand-ins in, scores and reports out; nothing that is done is lost."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder import intake
from autograder.course import course_file, labfile
from autograder.course.late import LateRules
from autograder.course.records import ClassRecord, Lab, Student, ToldError
from autograder.grading import hidden_cases, late, output_folder, shards
from autograder.grading.options import GradeRequest, setup_of
from autograder.grading.run import ClassRun
from autograder.grading.shards import ShardError
from autograder.intake import attempts, roster
from autograder.intake.attempts import AttributedHandIn
from autograder.intake.people import Directory, Enrolment, as_before
from autograder.intake.tree import Entry
from autograder.report import class_file
from autograder.report.class_file import opened
from autograder.report.compare import compare, plain, text
from autograder.report.terminal import remark
from autograder.worker.jail import harden_parent


def grade(request: GradeRequest) -> int:
    """Grade and write.

    Returns:
        0 when everything could be graded, 1 when something is left to a human because it
        could not be graded, 2 when grading could not start or go on, 3 when isolation is too
        weak, 130 when it was interrupted.
    """
    harden_parent()  # the secret stands in this process, too
    lab = labfile.load(labfile.find_lab(request.lab))
    survey = intake.survey(request.submissions, lab, request.pattern)
    for message in survey.remarks:
        remark(request.language, message)
    listed = roster.read(request.roster) if request.roster else ()
    everyone = _identified(survey.entries, listed, request)
    entries = attempts.last(everyone) if request.attempt == "last" else everyone
    if request.dask:
        _distributable(request)
    if request.shard:
        _fits(request)
        entries = request.shard.own(entries)
    if request.only:
        entries = _only(entries, request, Enrolment(listed))
    output_folder.apart(request.submissions, request.out)
    with output_folder.claimed(request.out):
        before = _before(request.out, lab) if request.only else None
        if before is None:
            # A class that was graded without this roster had the ids of the download.
            raw = () if request.shard else survey.entries
            present = {entry.student for entry in (*entries, *raw)}
            output_folder.same_class(request.out, lab.name, present)
        shards.forget(request.out)
        enrolment, remarks = Enrolment(listed), survey.remarks
        # Without a roster, whoever has handed in since the class was graded is missing no more.
        known = listed or (before.missing if before else ())
        missing = roster.missing(known, everyone) if not request.shard else ()
        there: list[AttributedHandIn] = [*everyone, *(before.hand_ins if before else ())]
        everybody = Directory(there, missing, enrolment)
        rules = late.resolved(_rules(request, lab, before), everybody)
        grading = ClassRun(
            request, lab, entries, enrolment, missing, remarks, before, everyone, rules, everybody
        )
        _remember(request, lab.name)
        with _ending_by_sigterm_too():
            return grading.run()


def _remember(request: GradeRequest, lab: str) -> None:
    """Write down what the class is graded with, for whoever goes on with it."""
    extensions = course_file.read(request.course).extensions if request.course else None
    output_folder.write(request.out, setup_of(request, lab, extensions))


def _identified(
    entries: Sequence[Entry], listed: Sequence[Student], request: GradeRequest
) -> list[Entry]:
    """The entries under the ids of the roster; without one, under those of the class before."""
    if listed:
        found = Enrolment(listed).identified(entries)
    elif request.only and (request.out / "class.json").exists():
        found = as_before(entries, class_file.read(request.out).hand_ins)
    else:
        return list(entries)
    return sorted(attempts.numbered(found), key=lambda entry: entry.student)


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


def _fits(request: GradeRequest) -> None:
    """See that the other options make sense for a shard.

    Raises:
        ShardError: one of them belongs to ``merge``, or the shards would not fit together.
    """
    if not hidden_cases.given(request.secret_file):
        raise ShardError(
            f"--shard: without --secret-file (or ${hidden_cases.VARIABLE}) every shard would draw "
            "other hidden cases; give all of them the same"
        )
    if request.only:
        raise ShardError("--shard: --only names students by itself; leave one of the two away")


def _distributable(request: GradeRequest) -> None:
    """See that this can be graded on a cluster.

    Raises:
        ToldError: the package is not installed, or an option needs what stays on the workers.
    """
    if importlib.util.find_spec("distributed") is None:
        raise ToldError(
            "--dask: the package distributed is not installed; pip install 'distributed' or "
            "pip install -e '.[cluster]', on every machine of the cluster",
            "--dask：没有安装 distributed 包；请在集群的每台机器上运行 pip install distributed "
            "或 pip install -e '.[cluster]'",
        )
    for option, given in (("--weights", request.weights), ("--keep-outputs", request.keep_outputs)):
        if given:
            raise ToldError(
                f"--dask: {option} works on files of one machine; grade without it, or with "
                "--shard in place of --dask",
                f"--dask：{option} 需要同一台机器上的文件；请去掉它，或改用 --shard",
            )


def _only(entries: Sequence[Entry], request: GradeRequest, enrolment: Enrolment) -> list[Entry]:
    """The entries of the students of ``--only``; with all attempts where the best one counts.

    Raises:
        ValueError: one of them is not there.
    """
    known = {entry.student: entry for entry in entries}
    everybody = Directory(entries, (), enrolment)
    meant = {text: everybody.hand_in_of(text, "--only") for text in request.only}
    absent = [text for text in request.only if meant[text] not in known]
    if absent:
        raise ValueError(
            f"--only: no hand-in of {output_folder.named(absent)}; "
            f"there are {output_folder.named(sorted(known))}"
        )
    chosen = [known[student] for student in dict.fromkeys(meant.values())]
    if request.attempt == "last":
        return chosen
    whose = {attempts.people(entry) for entry in chosen}
    return [entry for entry in entries if attempts.people(entry) in whose]


def _rules(request: GradeRequest, lab: Lab, before: ClassRecord | None) -> LateRules | None:
    """About late hand-ins: of ``--course``, else of the class that this run goes on with."""
    if request.course is not None:
        return late.read(request.course, lab)
    if before is not None:
        return before.late_rules
    return late.kept(request.out) if request.resume else None


def _before(out: Path, lab: Lab) -> ClassRecord | None:
    """The class that was graded into ``out``, which ``--only`` adds to; None if there is none.

    Raises:
        ValueError: it is not one of ours, or of another lab.
    """
    if not (out / "class.json").exists():
        return None
    before = class_file.read(out)
    output_folder.same_lab(out, before.lab.name, lab.name)
    return before


# ``compare``: what changed between two gradings of a class, with the exit status of ``diff``.


def compare_gradings(before: Path, after: Path, language: str, *, as_json: bool) -> int:
    """Print what changed from the graded folder ``before`` to ``after``.

    Returns:
        0 when every student has the same, 1 when there are differences.

    Raises:
        ValueError: a folder holds no graded class, or they are of different labs.
    """
    comparison = compare(opened(before), opened(after))
    if as_json:
        print(json.dumps(plain(comparison), ensure_ascii=False, indent=1))
    else:
        print(text(comparison, language))
    return 0 if comparison.same else 1

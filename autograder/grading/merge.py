"""``merge``: parts that ``grade --shard`` has graded, as the one class that they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.course import labfile
from autograder.course.records import ClassRecord, Lab
from autograder.grading import journal, late, output_folder, overrides, shards
from autograder.grading.review_list import ScoreRules
from autograder.grading.run import LEVELS, ClassEnd
from autograder.grading.shards import Part, ShardError
from autograder.intake import roster
from autograder.intake.people import Directory, Enrolment
from autograder.report.escape import line
from autograder.report.terminal import remark, say


@dataclass(frozen=True)
class MergeRequest:
    """The command line of ``merge``; see ``python -m autograder merge --help``."""

    out: Path
    parts: tuple[Path, ...]
    language: str
    roster: Path | None = None
    overrides: Path | None = None
    partial: bool = False


def run(request: MergeRequest) -> int:
    """Write the class as one run over all of it would have.

    Returns:
        0, or 1 when something is left to a human: shards that are absent, too.

    Raises:
        ValueError: the parts do not belong together, some are absent, or another file cannot be
            used (names it and the mend).
    """
    language = request.language
    parts = {path: shards.read(path) for path in request.parts}
    if len(parts) < len(request.parts):
        raise ShardError("merge: a folder was given twice; give every part once")
    absent = shards.together(parts)
    first = next(iter(parts.values()))
    lab = _lab(next(iter(parts)), first)
    if absent:
        numbers = output_folder.named([f"{number}/{first.shard.count}" for number in absent])
        if not request.partial:
            raise ShardError(
                f"merge: these shards are absent: {numbers}; grade them, or give --partial for "
                "a class without their hand-ins"
            )
        say(language, "shards_absent", shards=numbers)
    for message in first.remarks:
        remark(language, message)
    listed = roster.read(request.roster) if request.roster else ()
    handed = [one for part in parts.values() for one in part.handed]
    # Who is in an absent shard is not missing.
    missing = () if absent else roster.missing(listed, handed)
    enrolment = Enrolment(listed)
    everybody = Directory(handed, missing, enrolment)
    decided = overrides.given(request.overrides, request.out, lab, everybody)
    rules = late.resolved(first.late_rules, everybody)
    for path in request.parts:
        _apart(path, request.out)
    with output_folder.claimed(request.out):
        whose = {student: part for part in parts.values() for student in part.graded}
        output_folder.same_class(request.out, lab.name, set(whose))
        shards.gather(parts, request.out)
        _remember(request)
        counted = ScoreRules(
            lab,
            enrolment,
            decided,
            first.attempt,
            lambda one: whose[one.student].no_weights,
            rules,
        )
        late.keep(request.out, rules)
        book = journal.Journal(request.out / journal.FOLDER, lab, b"")
        record = ClassRecord(
            lab,
            _weakest(parts.values()).isolation,
            first.versions,
            counted.of_class(book, whose, {}),
            hidden_cases=first.hidden_cases,
            public_cases=first.public_cases,
            missing=missing,
            late_rules=rules,
        )
        end = ClassEnd(request.out, language, enrolment, decided, first.remarks, reports=True)
        return end.write(record) or int(bool(absent))


def _remember(request: MergeRequest) -> None:
    """Write down what the parts were graded with, for whoever goes on with the class."""
    known = output_folder.read(request.parts[0])
    if known is not None:
        listed = request.roster or known.roster
        known = replace(known, shard="", roster=listed, overrides=request.overrides)
        output_folder.write(request.out, replace(known, language=request.language))


def _lab(path: Path, part: Part) -> Lab:
    """The lab, as it was when it was graded.

    Raises:
        ShardError: this checkout has none of that name, or another version.
    """
    lab = labfile.load(labfile.find_lab(part.lab_name))
    if shards.digest_of_lab(lab) != part.lab:
        raise ShardError(
            f"{path}: graded with another {line(part.lab_name)}/lab.toml than this checkout has; "
            "merge with the checkout that graded, or run every shard again with --resume"
        )
    return lab


def _apart(part: Path, out: Path) -> None:
    if part.resolve() == out.resolve():
        raise ShardError(f"{out}: is one of the parts; give OUT a folder of its own")


def _weakest(parts: Iterable[Part]) -> Part:
    """The part that was graded with the least isolation: no report may promise more."""
    return min(parts, key=lambda part: LEVELS.index(part.isolation.level))

"""The request to grade: by the command line, and by the folder that was graded before."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from autograder.course.records import ToldError
from autograder.grading import hidden_cases, output_folder, shards
from autograder.grading.output_folder import Setup
from autograder.grading.shards import Shard

OUT = Path("graded")


@dataclass(frozen=True)
class GradeRequest:
    """The command line of ``grade``; see ``python -m autograder grade --help``."""

    submissions: Path
    lab: str
    out: Path
    language: str
    secret_file: Path | None = None
    jobs: int = 1
    weights: str | None = None
    least: str = "strong"
    resume: bool = False
    only: tuple[str, ...] = ()
    keep_outputs: bool = False
    overrides: Path | None = None
    pattern: str | None = None
    attempt: str = "last"  # or "best"
    roster: Path | None = None
    course: Path | None = None
    shard: Shard | None = None
    dask: str | None = None  # address of a scheduler


def of(arguments: argparse.Namespace) -> GradeRequest:
    """Say what is asked for; what the command line leaves out, a run that goes on takes as it was.

    Raises:
        ToldError: a class lies there already, or nothing says what to grade.
        GradeFileError: what the folder knows cannot be used.
    """
    given, out, again = arguments.submissions, arguments.out, arguments.again
    goes_on = arguments.resume or again or bool(arguments.only)
    if arguments.resume and again:
        raise ToldError(
            "--resume keeps what was graded and --again grades it anew; give one of them",
            "--resume 保留已评的结果，--again 全部重新评分；请只给其中一个",
        )
    if given is not None and out is None and goes_on and _knows(given):
        given, out = None, given
    out = out or OUT
    if not goes_on and output_folder.is_graded(out):
        raise ToldError(
            f"{out}: holds a class that was graded; --resume goes on with it and keeps what still "
            "holds, --again grades everything anew, another --out keeps both",
            f"{out}：其中已有评过分的班级。--resume 接着评，保留仍然有效的结果；"
            "--again 全部重新评分；换一个 --out 则两者都保留。",
        )
    # Whoever names the hand-ins anew with --again begins anew.
    known = output_folder.read(out) if goes_on and not (again and given is not None) else None
    if given is None and known is None:
        raise ToldError(
            f"name the folder or archive of hand-ins: {out} does not say what was graded there",
            f"请指明提交所在的文件夹或压缩包：{out} 中没有记下评的是什么",
        )
    own = known or Setup(given, "2")
    least = "weak" if arguments.allow_weak_isolation else arguments.min_isolation
    shard = arguments.shard or (shards.parse(own.shard) if own.shard else None)
    return GradeRequest(
        submissions=given or own.hand_ins,
        lab=arguments.lab or own.lab,
        out=out,
        language=language(arguments, known),
        secret_file=arguments.secret_file or own.secret_file,
        jobs=arguments.jobs,
        weights=arguments.weights or own.weights or None,
        least=least or (known.least if known else output_folder.DEFAULT_LEVEL),
        resume=arguments.resume,
        only=tuple(arguments.only),
        keep_outputs=arguments.keep_outputs or own.keep_outputs,
        overrides=arguments.overrides or own.overrides,
        pattern=arguments.pattern or own.pattern or None,
        attempt=arguments.attempt or own.attempt,
        roster=arguments.roster or own.roster,
        course=arguments.course or there(own.course),
        shard=shard,
        dask=arguments.dask,
    )


def setup_of(request: GradeRequest, lab: str, extensions: Path | None) -> Setup:
    """Return what the folder has to know to go on."""
    place = request.secret_file
    if place is None and not hidden_cases.given(None):
        place = request.out / hidden_cases.NAME
    shard = request.shard
    return Setup(
        hand_ins=request.submissions,
        lab=lab,
        language=request.language,
        attempt=request.attempt,
        pattern=request.pattern or "",
        roster=request.roster,
        course=request.course,
        extensions=extensions,
        overrides=request.overrides,
        secret_file=place,
        weights=_weights(request.weights),
        keep_outputs=request.keep_outputs,
        least=request.least,
        shard=f"{shard.number}/{shard.count}" if shard else "",
    )


def language(arguments: argparse.Namespace, known: Setup | None) -> str:
    """The language that somebody has asked for, else the one of before, else the machine's."""
    spoken: str = arguments.lang
    asked = arguments.lang_given or os.environ.get("LAB_LANG")
    return known.language if known is not None and not asked else spoken


def _weights(named: str | None) -> str:
    """A folder from wherever it is looked for, or a hub id as it is."""
    return str(Path(named).resolve()) if named and Path(named).exists() else named or ""


def _knows(folder: Path) -> bool:
    return (folder / output_folder.NAME).exists() or output_folder.is_graded(folder)


def there(path: Path | None) -> Path | None:
    """A course file that is gone is not needed: the class keeps its rules."""
    return path if path is not None and path.exists() else None

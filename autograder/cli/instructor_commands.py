"""The commands of instructors and authors, and what they may do beyond students' commands.

Students get no copy of this module, nor of most that it imports.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.cli import export
from autograder.cli.commands import Commands

if TYPE_CHECKING:
    from autograder.grading.shards import Shard


def add(commands: Commands) -> None:
    """Add them; those of students are there already."""
    grade = commands.add("grade", _grade, "grade a folder of hand-ins, or a single one")
    text = "the class: a folder or archive; with --resume or --again, the folder of the reports"
    grade.add_argument("submissions", type=Path, nargs="?", help=text)
    text = "folder for the reports (default: graded)"
    grade.add_argument("--out", type=Path, help=text)
    grade.add_argument("--secret-file", type=Path, help="what hidden cases are drawn from")
    grade.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, help="hand-ins at a time"
    )
    grade.add_argument("--weights", help="Hugging Face folder or hub id: real Qwen3 weights")
    pattern = "how a hand-in's name tells the student: a regex with (?P<student_id>...)"
    grade.add_argument("--pattern", metavar="REGEX", help=pattern)
    attempt = "which of a student's attempts counts (default: last)"
    grade.add_argument("--attempt", choices=("last", "best"), help=attempt)
    listed = "CSV of who should hand in: their ids count in every file; who did not is listed"
    grade.add_argument("--roster", type=Path, metavar="CSV", help=listed)
    resume = "take what an earlier run has graded and what still holds, grade the rest"
    grade.add_argument("--resume", action="store_true", help=resume)
    again = "grade everything again into a folder that holds a class"
    grade.add_argument("--again", action="store_true", help=again)
    only = (
        "grade the hand-in of this student (id, email or name) alone, keep the others (may be "
        "repeated)"
    )
    grade.add_argument("--only", action="append", default=[], metavar="ID", help=only)
    keep = "keep what hand-ins answer, so that rescore can judge it anew"
    grade.add_argument("--keep-outputs", action="store_true", help=keep)
    decided = (
        "a person's decisions, as TOML or CSV (default: OUT/overrides.toml and OUT/overrides.csv)"
    )
    grade.add_argument("--overrides", type=Path, metavar="FILE", help=decided)
    course = "course.toml: when labs are due, what a late hand-in costs, extensions"
    grade.add_argument("--course", type=Path, metavar="FILE", help=course)
    part = "grade one part of the class, to be merged with the others: NUMBER/COUNT, as 2/16"
    grade.add_argument("--shard", type=_shard, metavar="I/N", help=part)
    cluster = "grade on the workers of this Dask scheduler, as tcp://10.0.0.1:8786"
    grade.add_argument("--dask", metavar="ADDRESS", help=cluster)
    levels = ("strong", "medium", "weak")
    default = "strong" if sys.platform.startswith("linux") else "weak"
    grade.add_argument(
        "--min-isolation",
        choices=levels,
        help=f"refuse to grade below this level (default: {default})",
    )
    grade.add_argument(
        "--allow-weak-isolation", action="store_true", help="grade whatever layers are missing"
    )
    grade.set_defaults(lab=None)  # that of the class which is gone on with, else lab 2

    text = "put parts of a class that grade --shard has graded together"
    merge = commands.add("merge", _merge, text, lab=None)
    merge.add_argument("out", type=Path, help="folder for the reports")
    merge.add_argument("parts", type=Path, nargs="+", metavar="PART", help="graded parts")
    merge.add_argument("--roster", type=Path, metavar="CSV", help=listed)
    merge.add_argument("--overrides", type=Path, metavar="FILE", help=decided)
    partial = "merge even if shards are missing; their hand-ins are left out"
    merge.add_argument("--partial", action="store_true", help=partial)

    text = "grade the numbers of written reports (my_report.md); a person reads the rest"
    written = commands.add("grade-report", _grade_report, text, lab=None)
    written.add_argument("submissions", type=Path, help="the class: a folder or archive")
    out = Path("graded-report")
    written.add_argument("--out", type=Path, default=out, help=f"where to (default: {out})")
    written.add_argument("--pattern", metavar="REGEX", help=pattern)
    written.add_argument("--roster", type=Path, metavar="CSV", help=listed)

    report = commands["report"]
    report.description = "rewrite the reports of a class; without OUT, fill in my_report.md"
    text = "folder that grade has written: its reports are written anew, in another language, say"
    report.add_argument("out", type=Path, nargs="?", help=text)
    report.set_defaults(run=_report)

    text = "apply today's points, limits and overrides; no hand-in runs again"
    rescore = commands.add("rescore", _rescore, text)
    rescore.add_argument("out", type=Path, help="folder that grade has written")
    rescore.add_argument("--overrides", type=Path, metavar="FILE", help=decided)
    given = "where the secret that grade was given lies now, if it was moved"
    rescore.add_argument("--secret-file", type=Path, help=given)
    rescore.add_argument("--course", type=Path, metavar="FILE", help=course)

    export.add(commands)

    text = "what changed between two gradings of a class; status 1 if anything did"
    changed = commands.add("compare", _compare, text, lab=None)
    changed.add_argument("before", type=Path, help="folder that grade has written")
    changed.add_argument("after", type=Path, help="folder that grade has written")
    changed.add_argument("--json", action="store_true", help="print one JSON object")

    build = commands.add("build", _build, "for authors: write all that is generated for a lab")
    build.add_argument("--force", action="store_true", help="overwrite files that were changed")

    text = "for authors: write a tiny lab, to be edited from there"
    new = commands.add("new-lab", _new_lab, text, lab=None)
    new.add_argument("name", help="of the lab and its folders, as lab8_gate")
    text = "what students will edit (default: attention.py mlp.py)"
    files = ["attention.py", "mlp.py"]
    new.add_argument("--files", nargs="+", default=files, metavar="FILE", help=text)

    text = "for authors: write a lab whose checks are the tests of a pytest file"
    adopt = commands.add("adopt", _adopt, text, lab=None)
    text = "pytest file; what it tests it imports by plain name: from model import softmax"
    adopt.add_argument("tests", type=Path, help=text)
    text = "a right solution, of which students get the signatures"
    adopt.add_argument("--file", required=True, type=Path, help=text)
    adopt.add_argument("--name", default="", help="of the lab (default: that of the file)")

    text = "for authors: prove in seconds what holds of a lab that is being written"
    commands.add("try", _try, text)

    text = "for authors: prove that a lab keeps its promises"
    audit = commands.add("audit", _audit, text, lab="")
    at_a_time = "labs at a time"
    audit.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help=at_a_time)

    text = "for authors: these Chinese sections were looked at, and say what the English says"
    looked = commands.add("translated", _translated, text, lab=None)
    looked.add_argument("page", type=Path, help="a page, as labs/lab2_qwen3_block/README.zh-CN.md")
    title = "English title of a section (may be repeated; default: all stale ones)"
    looked.add_argument("--section", action="append", default=[], metavar="TITLE", help=title)

    text = "for authors: write the students' copy, as a folder and as a zip"
    release = commands.add("release", _release, text, lab=None)
    release.add_argument("--out", type=Path, default=Path("dist"), help="where to (default: dist)")
    text = "language of the docstrings in the stubs (default: en)"
    release.add_argument("--stubs", choices=("en", "zh"), default="en", help=text)

    text = "Hugging Face folder or hub id: real Qwen3 weights"
    commands["test"].add_argument("--weights", help=text)
    commands["test"].set_defaults(run=_test)

    doctor = commands["doctor"]
    doctor.description = "try attacks on this machine and say which protections hold"
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(run=_doctor)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1")
    return int(text)


def _shard(text: str) -> Shard:
    from autograder.grading import shards

    try:
        return shards.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _grade(arguments: argparse.Namespace) -> int:
    from autograder.grading import conduct, options

    return conduct.grade(options.of(arguments))


def _merge(arguments: argparse.Namespace) -> int:
    from autograder.grading import merge

    wanted = merge.MergeRequest(
        out=arguments.out,
        parts=tuple(arguments.parts),
        language=arguments.lang,
        roster=arguments.roster,
        overrides=arguments.overrides,
        partial=arguments.partial,
    )
    return merge.run(wanted)


def _report(arguments: argparse.Namespace) -> int:
    from autograder.cli import student_commands
    from autograder.grading import rescore as grading_rescore

    if arguments.out is None:
        return student_commands.report(arguments)
    return grading_rescore.report(arguments.out, arguments.lang)


def _rescore(arguments: argparse.Namespace) -> int:
    from autograder.grading import rescore as grading_rescore

    return grading_rescore.rescore(arguments)


def _test(arguments: argparse.Namespace) -> int:
    from autograder.cli import student
    from autograder.grading import hidden_cases

    cases = hidden_cases.of(arguments.lab, arguments.weights) if arguments.weights else None
    with cases or nullcontext() as real:
        return student.test(
            arguments.lab,
            arguments.folder,
            arguments.match,
            arguments.lang,
            real=real,
            to=arguments.json,
            prints=arguments.prints,
        )


def _doctor(arguments: argparse.Namespace) -> int:
    from autograder.doctor import diagnosis

    return diagnosis.run(as_json=arguments.json, language=arguments.lang)


def _compare(arguments: argparse.Namespace) -> int:
    from autograder.grading import conduct as cli_grade

    return cli_grade.compare_gradings(
        arguments.before, arguments.after, arguments.lang, as_json=arguments.json
    )


def _build(arguments: argparse.Namespace) -> int:
    from autograder.authoring import build

    return build.run(arguments.lab, force=arguments.force)


def _translated(arguments: argparse.Namespace) -> int:
    from autograder.authoring import docstrings, pages

    if arguments.page.name == docstrings.FILE:
        return docstrings.run(arguments.page)
    return pages.run(arguments.page, arguments.section)


def _new_lab(arguments: argparse.Namespace) -> int:
    from autograder.authoring import new_lab

    english = arguments.lang_given and arguments.lang == "en"
    return new_lab.run(arguments.name, arguments.files, new_lab.root(), english=english)


def _adopt(arguments: argparse.Namespace) -> int:
    from autograder.authoring import adopt, new_lab

    return adopt.run(arguments.tests, arguments.file, arguments.name, new_lab.root())


def _try(arguments: argparse.Namespace) -> int:
    from autograder.authoring import audit

    return audit.run_draft(arguments.lab)


def _audit(arguments: argparse.Namespace) -> int:
    from autograder.authoring import audit

    return audit.run(arguments.lab) if arguments.lab else audit.run_all(arguments.jobs)


def _release(arguments: argparse.Namespace) -> int:
    from autograder.authoring import release

    return release.run(arguments.out, stubs_in=arguments.stubs)


def _grade_report(arguments: argparse.Namespace) -> int:
    from autograder.grading import written_report

    return written_report.grade_reports(
        arguments.submissions,
        arguments.out,
        arguments.lang,
        pattern=arguments.pattern,
        listed=arguments.roster,
    )

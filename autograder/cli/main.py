"""``python -m autograder COMMAND``: parses the command line, then imports what is needed.

Only the standard library is imported before a command runs, so that ``--help`` and the
instructor's side never wait for torch.
"""

from __future__ import annotations

import argparse
import locale
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status (0 good, 1 something failed, 2 cannot start)."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    for stream in (sys.stdout, sys.stderr):
        # A Chinese Windows terminal is GBK: what it cannot show must not end the program.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        status: int = arguments.run(arguments)
        return status
    except ValueError as error:  # our own errors: LabError, SecretError, SourceError, …
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `… | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk, a folder that may not be read
        where = f"{error.filename}: " if error.filename else ""
        print(f"autograder: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("autograder: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autograder", description="Checks and grades the labs of qwen3-labs."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument("--lab", default="2", help="2, lab2 and lab2_qwen3_block mean the same")
        made.add_argument("--lang", choices=("en", "zh"), default=_language(), help="language")
        return made

    grade = command("grade", _grade, "grade a folder of hand-ins, or a single one")
    grade.add_argument("submissions", type=Path, help="the class: a folder or archive")
    grade.add_argument("--out", type=Path, default=Path("graded"), help="folder for the reports")
    grade.add_argument("--secret-file", type=Path, help="what hidden cases are drawn from")
    grade.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, help="hand-ins at a time"
    )
    grade.add_argument("--weights", help="Hugging Face folder or hub id: real Qwen3 weights")
    pattern = "how a hand-in's name tells the student: a regex with (?P<student_id>...)"
    grade.add_argument("--pattern", metavar="REGEX", help=pattern)
    attempt = "which of a student's attempts counts (default: last)"
    grade.add_argument("--attempt", choices=("last", "best"), default="last", help=attempt)
    listed = "CSV of who should hand in; who did not is listed"
    grade.add_argument("--roster", type=Path, metavar="CSV", help=listed)
    resume = "take what an earlier run has graded and what still holds, grade the rest"
    grade.add_argument("--resume", action="store_true", help=resume)
    only = "grade this student's hand-in alone, keep the others (may be repeated)"
    grade.add_argument("--only", action="append", default=[], metavar="ID", help=only)
    keep = "keep what hand-ins answer, so that rescore can judge it anew"
    grade.add_argument("--keep-outputs", action="store_true", help=keep)
    decided = "a person's decisions on single checks (default: OUT/overrides.toml)"
    grade.add_argument("--overrides", type=Path, metavar="FILE", help=decided)
    levels = ("strong", "medium", "weak")
    default = "strong" if sys.platform.startswith("linux") else "weak"
    grade.add_argument(
        "--min-isolation",
        choices=levels,
        default=default,
        help=f"refuse to grade below this level (default: {default})",
    )
    grade.add_argument(
        "--allow-weak-isolation", action="store_true", help="grade whatever layers are missing"
    )

    report = command("report", _report, "write the reports anew, in another language, say")
    report.add_argument("out", type=Path, help="folder that grade has written")

    text = "apply today's points, limits and overrides; no hand-in runs again"
    rescore = command("rescore", _rescore, text)
    rescore.add_argument("out", type=Path, help="folder that grade has written")
    rescore.add_argument("--overrides", type=Path, metavar="FILE", help=decided)
    given = "the one that grade was given; with another one nothing is rescored"
    rescore.add_argument("--secret-file", type=Path, help=given)

    test = command("test", _test, "check your own files on the public cases")
    test.add_argument("-k", dest="match", default="", help="only exercises or checks named so")
    test.add_argument("--folder", type=Path, help="where the files lie (default: the lab)")
    test.add_argument("--weights", help="Hugging Face folder or hub id: real Qwen3 weights")

    debug = command("debug", _debug, "run checks in this process, for breakpoints")
    debug.add_argument("-k", dest="match", default="", help="only checks named so")
    debug.add_argument("--folder", type=Path, help="where the files lie (default: the lab)")

    chat = command("chat", _chat, "let the tiny checkpoint talk through your code")
    prompt = os.environ.get("PROMPT") or "Call me"  # make hands it on unharmed so
    chat.add_argument("--prompt", default=prompt, help="text to continue")
    chat.add_argument("--tokens", type=int, default=120, help="how many tokens to add")
    chat.add_argument("--folder", type=Path, help="where the files lie (default: the lab)")
    chat.add_argument("--weights", type=Path, help="another checkpoint folder")

    doctor = command("doctor", _doctor, "try attacks on this machine and say what holds")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")

    build = command("build", _build, "for authors: write stubs and public cases anew")
    build.add_argument("--force", action="store_true", help="overwrite files that were changed")

    command("audit", _audit, "for authors: prove that a lab keeps its promises")
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1")
    return int(text)


def _language() -> str:
    asked = os.environ.get("LAB_LANG") or os.environ.get("LANG") or ""
    if not asked:
        asked = locale.getlocale()[0] or ""
    return "zh" if asked.lower().startswith(("zh", "chinese")) else "en"


def _grade(arguments: argparse.Namespace) -> int:
    from autograder.cli import class_run, grade

    wanted = class_run.Wanted(
        submissions=arguments.submissions,
        lab=arguments.lab,
        out=arguments.out,
        language=arguments.lang,
        secret_file=arguments.secret_file,
        jobs=arguments.jobs,
        weights=arguments.weights,
        least="weak" if arguments.allow_weak_isolation else arguments.min_isolation,
        resume=arguments.resume,
        only=tuple(arguments.only),
        keep_outputs=arguments.keep_outputs,
        overrides=arguments.overrides,
        pattern=arguments.pattern,
        attempt=arguments.attempt,
        roster=arguments.roster,
    )
    return grade.run(wanted)


def _report(arguments: argparse.Namespace) -> int:
    from autograder.cli import again

    return again.report(arguments.out, arguments.lang)


def _rescore(arguments: argparse.Namespace) -> int:
    from autograder.cli import again

    return again.rescore(arguments.out, arguments.overrides, arguments.secret_file, arguments.lang)


def _test(arguments: argparse.Namespace) -> int:
    from autograder.cli import student

    return student.test(
        arguments.lab, arguments.folder, arguments.match, arguments.weights, arguments.lang
    )


def _debug(arguments: argparse.Namespace) -> int:
    from autograder.cli import student

    return student.debug(arguments.lab, arguments.folder, arguments.match)


def _chat(arguments: argparse.Namespace) -> int:
    from autograder.cli import chat
    from autograder.course import labfile

    lab = labfile.load(labfile.find_lab(arguments.lab))
    folder = arguments.folder or lab.folder
    checkpoint = arguments.weights or labfile.LABS / "given" / "tiny_qwen3"
    files = {name: str(folder / name) for name in lab.files}
    return chat.run(files, checkpoint, arguments.prompt, arguments.tokens)


def _doctor(arguments: argparse.Namespace) -> int:
    from autograder.cli import doctor

    return doctor.run(as_json=arguments.json, language=arguments.lang)


def _build(arguments: argparse.Namespace) -> int:
    from autograder.authoring import build

    return build.run(arguments.lab, force=arguments.force)


def _audit(arguments: argparse.Namespace) -> int:
    from autograder.authoring import audit

    return audit.run(arguments.lab)

"""``test`` and ``debug``: a student's own files on the public cases."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from autograder import intake
from autograder.cli.named_checks import chosen_checks, lab_of, meaning
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.handed_out import is_untouched
from autograder.course.messages import render
from autograder.course.records import (
    CheckResult,
    ClassRecord,
    HandIn,
    Isolation,
    Lab,
    Message,
    Outcome,
)
from autograder.doctor import machine, report
from autograder.doctor.report import fact_lines, glyph, labelled, sentence
from autograder.grading.engine import Engine
from autograder.grading.judge_process import EngineError, Options, RealWeights
from autograder.report import scoreboard as report_scoreboard
from autograder.report.escape import folded, line
from autograder.report.next_step import command_of
from autograder.report.scoreboard import LabRow, overview, scoreboard
from autograder.report.terminal import columns, readable, say
from autograder.report.view import rows_of
from autograder.worker.jail import LAYERS

# ``make test`` without ``LAB``: a row per lab, and where to go on.


def all_labs(language: str, tried: Callable[[Lab, Path], ClassRecord]) -> int:
    """Check every lab that was begun, and the first one in any case; print a row for each.

    The others are not run, see :func:`untouched`; that one shows that the labs run here.

    Returns:
        0 when every lab passes, 1 when not.

    Raises:
        EngineError: nothing could be run.
    """
    rows: list[LabRow] = []
    for path in sorted(labfile.LABS.glob("*/lab.toml")):
        lab = labfile.load(path.parent)
        names = [check.name for check in lab.checks]
        if begun(lab) or not rows:
            rows.append(LabRow(lab, tuple(rows_of(tried(lab, lab.folder), names))))
        else:
            rows.append(LabRow(lab, ()))
    print(overview(rows, language, lambda lab: todos(lab, lab.folder)))
    return 0 if all(row.kind == "passed" for row in rows) else 1


def begun(lab: Lab, folder: Path | None = None) -> bool:
    """Return whether a file in ``folder``, the lab's own for None, differs from a stub."""
    paths = [(folder or lab.folder) / name for name in lab.files]
    return not all(
        path.is_file() and is_untouched(path.read_text(encoding="utf-8", errors="replace"))
        for path in paths
    )


def test(
    lab_name: str,
    folder: Path | None,
    match: str,
    language: str,
    *,
    real: RealWeights | None = None,
    to: Path | None = None,
    prints: bool = False,
) -> int:
    """Check a student's files in the same jailed worker that grading uses.

    Args:
        lab_name: which lab; empty for all of them, or for the one that ``match`` names.
        folder: where the files lie; the lab's own folder for None.
        match: what ``-k`` asks for; empty for everything.
        language: ``en`` or ``zh``.
        real: cases on real weights.
        to: where to write the results as JSON; None for nowhere.
        prints: show what checks that passed have printed, too.

    Returns:
        0 when every check passed, 1 when not, 2 when nothing could be run.

    Raises:
        ValueError: ``to`` without a lab.
    """
    told, language = language, readable(language)
    if to is not None and not lab_name:
        raise labfile.LabError("--json needs --lab", "--json 需要同时给出 --lab")
    if not lab_name and (match or folder):
        lab_name = lab_of(match) if match and not folder else "2"
    try:
        if not lab_name:
            return all_labs(language, tried)
        lab = labfile.load(labfile.find_lab(lab_name))
        chosen = chosen_checks(lab, match)
        checks = lab.with_needs(chosen)
        where = folder or lab.folder
        record = untouched(lab, where) or tried(
            lab, where, checks=checks, real=real, prints=prints, diagnose=True
        )
    except EngineError as error:
        say(language, "cannot_start", text=error)
        return 2
    if to is not None:
        write_atomic(to, report_scoreboard.text_of(record, told))
    if said := meaning(lab, match, chosen, language):
        print(said)
    text, passed = board(record, chosen, language, folder or lab.folder, prints=prints)
    print(text)
    return 0 if passed else 1


def board(
    record: ClassRecord,
    chosen: tuple[str, ...],
    language: str,
    folder: Path,
    *,
    prints: bool = False,
) -> tuple[str, bool]:
    """The scoreboard of the hand-in in ``folder``; whether everything that was chosen passed."""
    known = sorted(labfile.LABS.glob("*/lab.toml"))
    after = [path.parent.name for path in known if path.parent.name > record.lab.name]
    number = after[0].removeprefix("lab").split("_")[0] if after else ""
    hidden = labfile.of(record.lab.folder)
    places = todos(record.lab, folder)
    return scoreboard(
        record,
        chosen,
        language,
        hidden=hidden,
        following=number,
        todos=places,
        prints=prints,
    )


def todos(lab: Lab, folder: Path) -> dict[str, str]:
    """``file:line`` of the TODO of every exercise that still has one."""
    found: dict[str, str] = {}
    for name in lab.files:
        try:
            lines = (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, text in enumerate(lines, 1):
            for todo in re.findall(
                r"# TODO (\w+\.\w+)|NotImplementedError\(.TODO (\w+\.\w+)", text
            ):
                where = Path(shown(folder)) / name
                found.setdefault("".join(todo), f"{where}:{number}")
    return found


def untouched(lab: Lab, folder: Path) -> ClassRecord | None:
    """The record of files that are all as they were handed out; None where one is not.

    Nothing runs for it, which would take seconds: the audit of the lab has proved that in its
    stubs every check meets a TODO. ``isolation`` is empty, as no code was isolated.
    """
    if begun(lab, folder):
        return None
    results = tuple(
        CheckResult(
            check.name, Outcome.NOT_STARTED, Message("check.not_started", {"todo": exercise.id})
        )
        for exercise in lab.exercises
        for check in exercise.checks
    )
    return ClassRecord(lab, Isolation("", (), ""), {}, (HandIn("you", results),))


def tried(
    lab: Lab,
    folder: Path,
    *,
    checks: tuple[str, ...] = (),
    real: RealWeights | None = None,
    diagnose: bool = False,
    prints: bool = False,
    each_case: bool = False,
) -> ClassRecord:
    """A record of one hand-in: the files in ``folder``, checked on the public cases.

    Args:
        checks: names of those to run; all for none.
        real: cases on real weights.
        diagnose: whether to recognise mistakes.
        prints: keep what checks that pass have printed, too.
        each_case: whether a check that fails is tried on its other cases, too.

    Raises:
        EngineError: nothing could be run.
    """
    submission = intake.read(intake.Entry("you", folder), lab)
    options = Options(
        checks=checks,
        shown_folder=shown(folder),
        real=real,
        diagnose=diagnose,
        each_case=each_case,
        prints=prints,
    )
    with Engine(lab, options) as engine:
        engine.wait_ready()
        (hand_in,) = engine.grade(iter([submission]))
        return ClassRecord(lab, engine.isolation, {}, (hand_in,))


def shown(folder: Path) -> str:
    """A folder as tracebacks show it: from where the student stands, as a terminal can open it."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def debug(lab_name: str, folder: Path | None, match: str, language: str) -> int:
    """Run the checks under plain pytest in one process, student exceptions and all."""
    lab = labfile.load(labfile.find_lab(lab_name))
    command = [sys.executable, "-m", "pytest", str(lab.folder / "checks"), "--capture=no"]
    command += ["-p", "autograder.checks.plugin", "--lab-folder", str(lab.folder), "-x", "-q"]
    command += ["-c", os.devnull, "--rootdir", str(lab.folder), "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "-p", "no:autograder", "--timeout=0", "--breakpoints"]
    command += ["--hand-in", str(folder or lab.folder), "--language", language]
    chosen = chosen_checks(lab, match)
    command += ["--only", ",".join(lab.with_needs(chosen))]
    if said := meaning(lab, match, chosen, readable(language)):
        print(said, flush=True)
    return subprocess.call(command, cwd=labfile.ROOT)


# A student's ``doctor``: can this machine run the labs? It looks, and starts one worker.

_LABEL = 18  # columns in front of a fact


def checkup(language: str) -> int:
    """Print what this machine has, whether a check runs on it, and what to mend.

    Returns:
        0 when the labs can be done here, 2 when not.
    """
    language = readable(language)
    facts = machine.facts()
    lines = [
        (label, text if number == 0 else f"  {text}")
        for label, whole in fact_lines(facts, language)
        for number, text in enumerate(folded(whole, columns() - _LABEL))
    ]
    print("\n".join(text.rstrip() for text in labelled(lines)))
    # Layers of isolation are the grader's matter: at home everybody runs their own code.
    for message in report.advice(facts, LAYERS, {}):
        print(f"- {render(message, language)}")
    try:
        level = _started()
    except (EngineError, OSError, ValueError) as error:
        print(f"\n{glyph('broke')} " + sentence("student_not_run", language, why=line(str(error))))
        return 2
    print(f"\n{glyph('held')} " + sentence("student_runs", language, level=level))
    print(sentence("student_next", language, command=command_of("", "test")))
    return 0


def _started() -> str:
    """Run one check of the first lab on its files; the level of isolation around it.

    Raises:
        EngineError: nothing can be run here.
        OSError, ValueError: a file of the course is absent or damaged.
    """
    lab = labfile.load(sorted(labfile.LABS.glob("*/lab.toml"))[0].parent)
    return tried(lab, lab.folder, checks=(lab.checks[0].name,)).isolation.level

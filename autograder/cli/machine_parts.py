"""What the machine knows for a report: scores, environment, text of the model, pictures."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.cli import chat, doctor_facts
from autograder.cli.all_labs import begun
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.records import ClassRecord, Lab, Message
from autograder.report import charts
from autograder.report.escape import block, fence, markdown
from autograder.report.next_step import number_of
from autograder.report.overview import LabRow
from autograder.report.rows import rows_of

FIGURES = "report_figures"
TOKENS = 60
PROMPT = "Call me"
OWN_NUMBERS = "autograder.cli.own_numbers"
_SECONDS = 120  # for code of the student's own that runs outside of a worker

Tried = Callable[[Lab, Path], ClassRecord]


def made(wanted: Sequence[Path], place: Path, language: str, tried: Tried) -> Mapping[str, str]:
    """Markdown by the name of a block; writes the pictures beside the report in ``place``.

    Args:
        wanted: folders of the labs to show; all that were begun for none.
        tried: runs the public cases of a lab on the files in a folder.

    Raises:
        EngineError: nothing could be run.
    """
    folders = wanted or sorted(path.parent for path in labfile.LABS.glob("*/lab.toml"))
    labs = [labfile.load(folder) for folder in folders]
    if not wanted:
        labs = [lab for lab in labs if begun(lab)]
    rows = []
    for lab in labs:
        record = tried(lab, lab.folder)
        rows.append(LabRow(lab, tuple(rows_of(record, [check.name for check in lab.checks]))))
    return {
        "scores": _scores(rows, language),
        "environment": _environment(language),
        "text": _text(rows, language),
        "figures": _figures(rows, place, language),
    }


def _scores(labs: Sequence[LabRow], language: str) -> str:
    if not labs:
        return _say("nothing_begun", language)
    lines = [_say("scores_head", language), "|---|---:|---|"]
    for lab in labs:
        missed = [f"{row.name} {row.points[0]}/{row.points[1]}" for row in lab.rows if row.missed]
        earned, worth = lab.points
        title = markdown(lab.lab.title.in_(language))
        lines.append(
            f"| {number_of(lab.lab)} · {title} | {earned} / {worth} | {', '.join(missed) or '–'} |"
        )
    return "\n".join([*lines, "", _say("scores_foot", language)])


def _environment(language: str) -> str:
    packages = doctor_facts.packages()
    versions = [f"{name} {packages[name]['version']}" for name in ("torch", "numpy")]
    machine = doctor_facts.machine()
    return _say(
        "environment",
        language,
        python=platform.python_version(),
        packages=", ".join(versions),
        system=f"{machine['system']} {machine['architecture']}",
        cores=machine["cores"],
    )


def _text(labs: Sequence[LabRow], language: str) -> str:
    """What the tiny checkpoint says through the last lab that can talk and passes."""
    able = [lab for lab in labs if lab.kind == "passed" and chat.can_talk(lab.lab)]
    if not able:
        return _say("no_text", language)
    number = number_of(able[-1].lab)
    command = [sys.executable, "-m", "autograder", "chat", "--lab", number]
    said = _output([*command, "--prompt", PROMPT, "--tokens", str(TOKENS)])
    if not said:
        return _say("no_text", language)
    intro = _say("text_intro", language, lab=number, tokens=TOKENS, prompt=PROMPT)
    return f"{intro}\n\n{fence(block(said))}"


def _figures(labs: Sequence[LabRow], place: Path, language: str) -> str:
    pictures: dict[str, tuple[str, str]] = {}
    if labs:
        bars = [(f"LAB={number_of(lab.lab)}", *lab.points) for lab in labs]
        title = _say("figure_scores", language)
        pictures["scores.svg"] = title, charts.shares(title, bars)
    own = _own_numbers(labs)
    if own:
        title = _say("figure_cache", language)
        axis = _say("figure_cache_axis", language)
        pictures["kv_cache.svg"] = title, charts.lines(title, axis, _together(own["cache"]))
        title = _say("figure_parameters", language)
        pictures["parameters.svg"] = title, charts.stacks(title, own["parameters"])
    if not pictures:
        return _say("no_figures", language)
    folder = place / FIGURES
    folder.mkdir(exist_ok=True)
    for name, (_, picture) in pictures.items():
        write_atomic(folder / name, picture)
    return "\n\n".join(f"![{title}]({FIGURES}/{n})" for n, (title, _) in pictures.items())


def _together(series: Mapping[str, Any]) -> dict[str, Any]:
    """Models whose lines are the same as one: they would hide each other."""
    names: dict[str, list[str]] = {}
    for name, points in series.items():
        names.setdefault(json.dumps(points), []).append(name)
    return {", ".join(same): json.loads(points) for points, same in names.items()}


def _own_numbers(labs: Sequence[LabRow]) -> dict[str, Any]:
    """What the student's own functions of lab 2 count; empty while they are not right."""
    needed = {"count_parameters", "kv_cache_bytes"}
    for lab in labs:
        right = {row.name for row in lab.rows if row.kind == "passed"}
        if needed <= right:
            said = _output([sys.executable, "-m", OWN_NUMBERS, str(lab.lab.folder)])
            found = json.loads(said) if said.startswith("{") else {}
            return found if isinstance(found, dict) else {}
    return {}


def _output(command: Sequence[str]) -> str:
    """What a command prints; nothing if it fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=labfile.ROOT,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"machine.{name}", values), language)

"""``make report``: fills the machine's parts of ``my_report.md``; the student's words stay."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from autograder.cli.student import begun, tried
from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.quantity import CHOICES, QuantityError, chosen, fields, parse
from autograder.course.records import ClassRecord, Lab, Message
from autograder.doctor import machine as doctor_machine
from autograder.grading.judge_process import EngineError
from autograder.intake import tree
from autograder.report.escape import block, fence, folded, markdown
from autograder.report.next_step import number_of
from autograder.report.scoreboard import LabRow
from autograder.report.terminal import columns, readable
from autograder.report.view import rows_of

# The machine's parts of a student's report, between marks; everything else stays as it is.

BLOCKS = ("scores", "environment", "text", "figures")
_BLOCK = re.compile(r"(<!-- machine: (\w+) -->\n)(.*?)(^<!-- end -->)", re.DOTALL | re.MULTILINE)


def filled(text: str, parts: Mapping[str, str]) -> tuple[str, list[str]]:
    """``text`` with every part between its marks, and the names of parts that have no marks.

    Line ends stay as they are; a mark that is not closed is left alone.
    """
    found: set[str] = set()

    def one(match: re.Match[str]) -> str:
        name = match[2]
        if name not in parts or "<!-- machine:" in match[3]:
            return match[0]
        found.add(name)
        # A mark inside a part, in what the model wrote, say, would end it next time.
        safe = parts[name].replace("<!--", "< !--").strip("\n")
        return f"{match[1]}{safe}\n{match[4]}"

    windows = "\r\n" in text
    done = _BLOCK.sub(one, text.replace("\r\n", "\n") if windows else text)
    return done.replace("\n", "\r\n") if windows else done, [n for n in parts if n not in found]


# Small charts as SVG: no library, readable in any viewer, light or dark behind them.

_COLOURS = ("#2f6fb3", "#d9822b", "#3d9a5f", "#b23b4d", "#7a5cb0", "#5b6770")
_WIDTH, _HEIGHT = 640, 340
_LEFT, _TOP, _BOTTOM = 70, 56, 40
_RIGHT = 130  # room for the legend
_INK = "#24292f"


def shares(title: str, bars: Sequence[tuple[str, int, int]]) -> str:
    """One bar per label: how much of the whole is reached."""
    step = (_WIDTH - _LEFT - 20) / max(1, len(bars))
    parts = []
    for number, (label, earned, worth) in enumerate(bars):
        x, thick = _LEFT + number * step + step * 0.2, step * 0.6
        high = (_HEIGHT - _TOP - _BOTTOM) * earned / max(1, worth)
        whole = _HEIGHT - _TOP - _BOTTOM
        parts.append(_box(x, _TOP, thick, whole, "#e4e7eb"))
        parts.append(_box(x, _TOP + whole - high, thick, high, _COLOURS[0]))
        parts.append(_words(x + thick / 2, _HEIGHT - 18, label, "middle"))
        parts.append(_words(x + thick / 2, _TOP + whole - high - 6, f"{earned}", "middle"))
    return _picture(title, parts)


def lines(title: str, axis: str, series: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """One line per name through points ``(x, y)``; both axes begin at 0."""
    right = max((x for points in series.values() for x, _ in points), default=1) or 1
    top = max((y for points in series.values() for _, y in points), default=1) or 1
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = _grid(top, wide)
    for part in range(5):
        value = right * part / 4
        parts.append(_words(_LEFT + wide * part / 4, _HEIGHT - 22, f"{value:,.0f}", "middle"))
    parts.append(_words(_LEFT + wide / 2, _HEIGHT - 6, axis, "middle"))
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        way = " ".join(
            f"{_LEFT + wide * x / right:.1f},{_TOP + high * (1 - y / top):.1f}" for x, y in points
        )
        line = f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
        parts += [line, *_key(number, name, colour)]
    return _picture(title, parts)


def stacks(title: str, columns: Mapping[str, Mapping[str, float]]) -> str:
    """One column per name, made of named parts, as shares of its whole."""
    names = list(dict.fromkeys(part for parts in columns.values() for part in parts))
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = wide / max(1, len(columns))
    parts = _grid(100, wide, " %")
    for number, (column, sizes) in enumerate(columns.items()):
        whole, below = sum(sizes.values()) or 1, float(_TOP + high)
        for index, name in enumerate(names):
            tall = high * sizes.get(name, 0) / whole
            below -= tall
            colour = _COLOURS[index % len(_COLOURS)]
            parts.append(_box(_LEFT + number * step + step * 0.2, below, step * 0.6, tall, colour))
        parts.append(_words(_LEFT + (number + 0.5) * step, _HEIGHT - 18, column, "middle"))
    for index, name in enumerate(names):
        parts += _key(index, name, _COLOURS[index % len(_COLOURS)])
    return _picture(title, parts)


def _grid(top: float, wide: float, unit: str = "") -> list[str]:
    parts = []
    for part in range(5):
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - part / 4)
        ends = f'x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {ends} stroke="#d0d7de" stroke-width="1"/>')
        parts.append(_words(_LEFT - 8, y + 4, f"{top * part / 4:.3g}{unit}", "end"))
    return parts


def _key(number: int, name: str, colour: str) -> list[str]:
    x, y = _WIDTH - _RIGHT + 14, _TOP + 8 + 22 * number
    return [_box(x, y, 12, 12, colour), _words(x + 18, y + 11, name, "start")]


def _box(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{colour}"/>'


def _words(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12" '
        f'fill="{_INK}" role="img">'
    )
    name = f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>'
    heading = f'<text x="20" y="24" font-size="15">{escape(title)}</text>'
    return "\n".join([head, name, heading, *parts, "</svg>", ""])


# What the machine knows for a report: scores, environment, text of the model, pictures.

FIGURES = "report_figures"
FIGURES_OF_LAB = "figures"  # a module of a lab that prints what to draw
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
        return _say_machine_parts("nothing_begun", language)
    lines = [_say_machine_parts("scores_head", language), "|---|---:|---|"]
    for lab in labs:
        missed = [f"{row.name} {row.points[0]}/{row.points[1]}" for row in lab.rows if row.missed]
        earned, worth = lab.points
        title = markdown(lab.lab.title.in_(language))
        lines.append(
            f"| {number_of(lab.lab)} · {title} | {earned} / {worth} | {', '.join(missed) or '–'} |"
        )
    return "\n".join([*lines, "", _say_machine_parts("scores_foot", language)])


def _environment(language: str) -> str:
    packages = doctor_machine.packages()
    versions = [f"{name} {packages[name]['version']}" for name in ("torch", "numpy")]
    machine = doctor_machine.machine()
    return _say_machine_parts(
        "environment",
        language,
        python=platform.python_version(),
        packages=", ".join(versions),
        system=f"{machine['system']} {machine['architecture']}",
        cores=machine["cores"],
    )


def _text(labs: Sequence[LabRow], language: str) -> str:
    """Return what the command prints that shows the last lab that passes and has one at work."""
    able = [lab for lab in labs if lab.kind == "passed" and lab.lab.after]
    if not able:
        return _say_machine_parts("no_text", language)
    number, command = number_of(able[-1].lab), able[-1].lab.after
    said = _output([sys.executable, "-m", "autograder", command, "--lab", number])
    if not said:
        return _say_machine_parts("no_text", language)
    intro = _say_machine_parts("text_intro", language, command=f"make {command} LAB={number}")
    return f"{intro}\n\n{fence(block(said))}"


def _figures(labs: Sequence[LabRow], place: Path, language: str) -> str:
    pictures: dict[str, tuple[str, str]] = {}
    if labs:
        bars = [(f"LAB={number_of(lab.lab)}", *lab.points) for lab in labs]
        title = _say_machine_parts("figure_scores", language)
        pictures["scores.svg"] = title, shares(title, bars)
    for figure in _brought(labs):
        title, data = figure["title"][language], figure["data"]
        if figure["kind"] == "stacks":
            picture = stacks(title, data)
        else:
            picture = lines(title, figure["axis"][language], _together(data))
        pictures[f"{figure['name']}.svg"] = title, picture
    if not pictures:
        return _say_machine_parts("no_figures", language)
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


def _brought(labs: Sequence[LabRow]) -> Iterator[dict[str, Any]]:
    """The figures that ``figures.py`` of a lab has to draw, from the exercises that are right."""
    for lab in labs:
        if (lab.lab.folder / f"{FIGURES_OF_LAB}.py").is_file():
            right = [row.name for row in lab.rows if row.kind == "passed"]
            module = f"labs.{lab.lab.name}.{FIGURES_OF_LAB}"
            said = _output([sys.executable, "-m", module, str(lab.lab.folder), *right])
            yield from json.loads(said) if said.startswith("[") else []


def _output(command: Sequence[str]) -> str:
    """Return what a command prints; nothing if it fails or takes too long."""
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


def _say_machine_parts(name: str, language: str, **values: object) -> str:
    return render(Message(f"machine.{name}", values), language)


FILE = "my_report.md"
TEMPLATES = {"en": "report_template.md", "zh": "report_template.zh-CN.md"}


def run(lab_name: str, folder: Path | None, language: str) -> int:
    """Run the labs that were begun, then write scores, machine, text and pictures.

    Args:
        lab_name: the one lab to show; all that were begun for an empty one.
        folder: where the report lies; the course's folder for None.
        language: ``en`` or ``zh``: of the template, and of what is filled in.

    Returns:
        0, or 2 when no check could be run.

    Raises:
        LabError: the report is no text, or no lab goes by that name.
        OSError: the report cannot be read or written.
    """
    place = folder or labfile.ROOT
    path = place / FILE
    new = not path.exists()
    source = labfile.ROOT / TEMPLATES[language] if new else path
    text = decoded(source.read_bytes())
    wanted = [labfile.find_lab(lab_name)] if lab_name else []
    try:
        parts = made(wanted, place, language, tried)
    except EngineError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    done, absent = filled(text, parts)
    write_atomic(path, done)
    shown = readable(language)
    print(_say("begun" if new else "filled", shown, file=path))
    for name in absent:
        print(_say("no_block", shown, file=FILE, block=name))
    for said in _numbers(done, shown):
        print("\n".join(folded(said, columns())))
    return 0


def decoded(data: bytes) -> str:
    """The text of a report as a grader reads it, in UTF-8 or in what Windows writes.

    Raises:
        LabError: it is no text.
    """
    try:
        return tree.decode(data, FILE)[0]
    except tree.RefusedError as refused:
        raise labfile.LabError(
            *(render(refused.reason, language) for language in ("en", "zh"))
        ) from None


def _numbers(text: str, language: str) -> list[str]:
    """Say which numbers are still open, and which cannot be read: never whether they are right."""
    found = fields(text).values()
    empty = [field.id for field in found if field.empty]
    lines = []
    for field in found:
        if field.empty:
            continue
        if field.kind == "choice":
            known = CHOICES.get(field.id, (field.text,))
            if not chosen(field.text, known):
                values = {"field": field.id, "known": ", ".join(known)}
                lines.append(_say("choice", language, **values))
            continue
        try:
            parse(field.text, field.kind)
        except QuantityError as error:
            why = _say(error.why, language, written=field.text)
            lines.append(_say("bad_field", language, field=field.id, why=why))
    if empty:
        named = {"open": len(empty), "count": len(found), "fields": ", ".join(empty)}
        lines.append(_say("open_fields", language, **named))
    elif not lines:
        numbers = sum(field.kind != "choice" for field in found)
        lines.append(_say("all_fields", language, count=numbers))
    return lines


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"answer.{name}", values), language)

"""``make report``: fills the machine's parts of ``my_report.md``; the student's words stay."""

from __future__ import annotations

import sys
from pathlib import Path

from autograder.cli import machine_parts
from autograder.cli.student import tried
from autograder.course import labfile
from autograder.course.answer_fields import fields
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.quantity import QuantityError, parse
from autograder.course.records import Message
from autograder.grading.engine import EngineError
from autograder.report.escape import folded
from autograder.report.machine_blocks import filled
from autograder.report.terminal import columns, readable

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
        LabError: no lab goes by that name.
        OSError: the report cannot be read or written.
    """
    place = folder or labfile.ROOT
    path = place / FILE
    new = not path.exists()
    source = labfile.ROOT / TEMPLATES[language] if new else path
    text = source.read_text(encoding="utf-8-sig")
    wanted = [labfile.find_lab(lab_name)] if lab_name else []
    try:
        parts = machine_parts.made(wanted, place, language, tried)
    except EngineError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    done, absent = filled(text, parts)
    write_atomic(path, done)
    shown = readable(language)
    print(_say("begun" if new else "filled", shown, file=path))
    for block in absent:
        print(_say("no_block", shown, file=FILE, block=block))
    for said in _numbers(done, shown):
        print("\n".join(folded(said, columns())))
    return 0


def _numbers(text: str, language: str) -> list[str]:
    """Which numbers are still open, and which cannot be read: never whether they are right."""
    found = fields(text).values()
    empty = [field.id for field in found if field.empty]
    lines = []
    for field in found:
        if field.empty or field.kind == "choice":
            continue
        try:
            parse(field.text, field.kind)
        except QuantityError as error:
            why = _say(error.why, language, written=field.text)
            lines.append(_say("bad_field", language, field=field.id, why=why))
    if empty:
        values = {"open": len(empty), "count": len(found), "fields": ", ".join(empty)}
        lines.append(_say("open_fields", language, **values))
    elif not lines:
        lines.append(_say("all_fields", language, count=len(found)))
    return lines


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"answer.{name}", values), language)

"""``hint``: helps a student on with one exercise, a step further each time it is asked."""

from __future__ import annotations

import contextlib
import json
from datetime import date
from pathlib import Path
from typing import Any

from autograder.cli.named_checks import chosen_checks
from autograder.cli.student import tried, untouched
from autograder.course import labfile, spot
from autograder.course.atomic import write_atomic
from autograder.course.cards import Cards
from autograder.course.records import FEEDBACK, Certainty, Finding, Lab
from autograder.grading.judge_process import EngineError
from autograder.report import hints
from autograder.report.hints import wording
from autograder.report.next_step import finding_of, nothing_left
from autograder.report.terminal import say
from autograder.report.view import rows_of

# How far each exercise of each folder is; not tracked, and free to be deleted.
STATE = labfile.ROOT / ".hints.json"


def run(lab_name: str, folder: Path | None, match: str, language: str) -> int:
    """Print the next hint for the first exercise that is open, among those called ``match``.

    The steps go on while the same is wrong, whatever was changed meanwhile; they begin anew when
    something else is, or when it is right.

    Returns:
        0, or 2 when nothing could be run.

    Raises:
        LabError: no exercise or check is called ``match``.
    """
    lab = labfile.load(labfile.find_lab(lab_name))
    chosen = chosen_checks(lab, match)
    shown = folder or lab.folder
    try:
        # All checks, whatever is asked for: a mistake shows in several exercises.
        record = untouched(lab, shown) or tried(lab, shown, diagnose=True)
    except EngineError as error:
        say(language, "cannot_start", text=error)
        return 2
    rows = rows_of(record, chosen)
    steps = _Steps(STATE, f"{lab.name} {shown.resolve()}")
    for done in (row for row in rows if not row.missed):
        steps.forget(done.exercise.id)
    open_rows = [row for row in rows if row.missed]
    if not open_rows:
        steps.save()
        print(nothing_left(record, rows, language), wording("nothing_open", language), sep="\n")
        return 0
    row = open_rows[0]
    finding = finding_of(record, row)
    told = hints.steps(lab, row, finding, language)
    number = min(len(told), steps.next(row.exercise.id, hints.subject(row, finding)))
    steps.save()
    _to_come_back(lab, finding)
    whole = rows_of(record, chosen_checks(lab, ""))
    print(hints.shown(lab, row, told, number, language, hints.earlier(lab, whole, row, language)))
    return 0


def _to_come_back(lab: Lab, finding: Finding | None) -> None:
    """A mistake that was named comes back in ``review``, where the lab may name it."""
    if finding is None or finding.either or lab.feedback != FEEDBACK[-1]:
        return
    if finding.certainty in (Certainty.NAMED, Certainty.SHOWN):
        cards = Cards()
        cards.named(lab.name, finding.misconceptions, spot.load(lab.folder), date.today())
        cards.save()


class _Steps:
    """The number of hints given, by exercise, in one folder."""

    def __init__(self, path: Path, place: str) -> None:
        self._path = path
        self._place = place
        self._all = _read(path)
        found = self._all.get(place)
        self._here: dict[str, Any] = found if isinstance(found, dict) else {}

    def next(self, exercise: str, subject: str) -> int:
        """The number of the hint to give now, from 1."""
        last = self._here.get(exercise)
        same = isinstance(last, dict) and last.get("about") == subject
        before = last.get("given") if isinstance(last, dict) and same else 0
        given = 1 + before if isinstance(before, int) else 1
        self._here[exercise] = {"about": subject, "given": given}
        return given

    def forget(self, exercise: str) -> None:
        """It is right now."""
        self._here.pop(exercise, None)

    def save(self) -> None:
        """Write it down; where that cannot be done, the first hint is given again."""
        others = {place: steps for place, steps in self._all.items() if place != self._place}
        text = json.dumps(others | ({self._place: self._here} if self._here else {}), indent=1)
        with contextlib.suppress(OSError):
            write_atomic(self._path, text + "\n")


def _read(path: Path) -> dict[str, Any]:
    """Return what is written there; nothing if it is absent or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

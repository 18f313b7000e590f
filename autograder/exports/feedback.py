"""One archive of all reports, under the names by which Canvas or Moodle gives each to its student.

Moodle, *Upload multiple feedback files in a zip* (read in ``mod/assign/feedback/file/
importziplib.php``): a folder ``Full name_number_assignsubmission_file``, or that in front of the
file's name; the number finds the student. Where groups hand in, the number is that of the group,
and Moodle cannot use it.

Canvas, *Upload Submissions* (read in canvas-lms, ``app/models/abstract_assignment.rb``,
``infer_comment_context_from_filename``): the names of its own download, in which the numbers of the
student and of the attachment count. It shows our file under the name of the student's own, so
what we write has the form that this name promises: Markdown for a source file, a zip for a zip,
a notebook for a notebook.

Both take the download's own names back, so these are read from the download: ``class.json`` does
not hold the numbers of attachments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autograder import intake
from autograder.course import atomic, suggestions
from autograder.course.records import ClassRecord, HandIn, Message
from autograder.exports.people import listed
from autograder.exports.sheet import ExportError
from autograder.intake import names as intake_names
from autograder.intake.names import readable
from autograder.intake.tree import Entry

PLATFORMS = ("canvas", "moodle")
REPORTS = ("report.html", "report.md")
_MOODLE = re.compile(r"(?P<prefix>.+_\d+_assignsubmission_[a-z]+)(?P<rest>.*)", re.DOTALL)


Reports = Mapping[str, bytes]
Form = Callable[[Reports], bytes]


def _html(reports: Reports) -> bytes:
    return reports["report.html"]


def _markdown(reports: Reports) -> bytes:
    return reports["report.md"]


def _notebook(reports: Reports) -> bytes:
    text = reports["report.md"].decode()
    cell = {"cell_type": "markdown", "id": "report", "metadata": {}, "source": text}
    whole = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False).encode()


# What Canvas gets in place of a student's file, best first, by the ending of that file's name.
_FORMS: tuple[tuple[str, Form], ...] = (
    (".zip", atomic.packed),
    (".md", _markdown),
    (".txt", _markdown),
    (".py", _markdown),
    (".ipynb", _notebook),
    (".html", _html),
)


@dataclass(frozen=True)
class ArchiveMember:
    """A member of the archive: its name, and what it is made of."""

    name: str
    form: Form


@dataclass(frozen=True)
class FeedbackSummary:
    """The archive that was written: for which system, for how many, and what is left open."""

    platform: str
    count: int
    open: tuple[Message, ...]


def write(record: ClassRecord, out: Path, download: Path, to: Path) -> FeedbackSummary:
    """Write the archive.

    Args:
        record: the class.
        out: the folder that grading has written: each student gets the report that lies there.
        download: the hand-ins as they came from the course system, packed or not.
        to: the archive.

    Raises:
        ExportError: the download has no names of Canvas or Moodle, or is not of this class.
        SourceError: it cannot be read.
    """
    places = _Places(intake.survey(download, record.lab).entries)
    if places.platform is None:
        raise ExportError("no_platform", download)
    whose = {hand_in.student: places.of(hand_in) for hand_in in record.hand_ins}
    found = [(student, place) for student, place in sorted(whose.items()) if place]
    if not found:
        raise ExportError("other_download", download)
    nowhere = [student for student, place in whose.items() if place is None]
    lacking: list[str] = []
    with atomic.written(to) as archive:
        for student, place in found:
            try:
                reports = {name: (out / student / name).read_bytes() for name in REPORTS}
            except OSError:
                lacking.append(student)
                continue
            atomic.put(archive, place.name, place.form(reports))
        if len(lacking) == len(found):
            raise ExportError("no_reports", out, command=suggestions.command("report", out))
    left = {"nowhere": nowhere, "no_report": lacking}
    remarks = [Message(f"export.{key}", {"who": listed(who)}) for key, who in left.items() if who]
    return FeedbackSummary(places.platform, len(found) - len(lacking), tuple(remarks))


class _Places:
    """Places of reports in the archive, by the download's names."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._by_name = {entry.origin.name: entry for entry in entries}
        self._by_student = {entry.student: entry for entry in entries}
        told = [_platform(name) for entry in entries for name in _names(entry)]
        known = [platform for platform in told if platform in PLATFORMS]
        self.platform = max(PLATFORMS, key=known.count) if known else None

    def of(self, hand_in: HandIn) -> ArchiveMember | None:
        """Reports to members of the archive; None where the system would not take any."""
        entry = self._by_name.get(hand_in.origin.name) or self._by_student.get(hand_in.student)
        names = (
            [name for name in _names(entry) if _platform(name) == self.platform] if entry else []
        )
        return _moodle(names) if self.platform == "moodle" else _canvas(names)


def _names(entry: Entry) -> list[str]:
    """The names of a hand-in's folder, archive or loose files, as they were downloaded."""
    paths = [piece.path for piece in entry.pieces] or [entry.path.name]
    return [readable(PurePosixPath(path).name) for path in paths]


def _platform(name: str) -> str:
    told = intake_names.parse(name)
    return told.group[0] if told is not None else ""


def _moodle(names: Sequence[str]) -> ArchiveMember | None:
    for name in names:
        match = _MOODLE.fullmatch(name)
        if match is not None:
            # Loose files have their own name behind, an old Moodle's folders only `_`.
            sign = "/" if match["rest"] in ("", "_") else "_"
            return ArchiveMember(f"{match['prefix']}{sign}report.html", _html)
    return None


def _canvas(names: Sequence[str]) -> ArchiveMember | None:
    for ending, form in _FORMS:
        for name in names:
            told = intake_names.parse(name)
            if told is not None and not told.entered and name.lower().endswith(ending):
                return ArchiveMember(name, form)
    return None

"""Promises about handouts: every part is there, and says of each exercise what lab.toml says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autograder.authoring.pages import Section, sections
from autograder.authoring.place import Place, read

HANDOUT = "README.md"
# Headings in their order; “Common mistakes” may go on (“, and where they bit real code”).
PARTS = (
    "What you will be able to do",
    "Files, points and time",
    "Readings",
    "Symbols and shapes",
    "The contract",
    "How your work is judged",
    "Common mistakes",
    "Going further",
    "Hand in",
)
_HOURS = re.compile(r"\d+(?: to \d+)? (?:min|h)|–")


def breaches(place: Place) -> Iterator[str]:
    """What a handout lacks, or tells differently than ``lab.toml``."""
    path = place.folder / HANDOUT
    shown = place.shown(path)
    if not path.is_file():
        yield f"{shown} is absent; write it in the form of the author's guide"
        return
    found = list(sections(read(path)))
    yield from (f"{shown}: {fault}" for fault in _parts(found))
    yield from (f"{shown}: {fault}" for fault in _exercises(place, found))


def _parts(found: Sequence[Section]) -> Iterator[str]:
    titles = [section.title for section in found if section.level == 2]
    at = 0
    for part in PARTS:
        here = [n for n, title in enumerate(titles) if title.startswith(part)]
        if not here:
            yield f"has no section “## {part}”; add it"
        elif here[0] < at:
            yield f"“## {part}” stands too early; the order is {', '.join(PARTS)}"
        else:
            at = here[0]


def _exercises(place: Place, found: Sequence[Section]) -> Iterator[str]:
    rows = dict(_rows(found))
    number = place.name.removeprefix("lab").split("_")[0]
    for exercise in place.lab.exercises:
        points = sum(check.points for check in exercise.checks)
        heading = f"TODO `{exercise.id}` ({points} point{'s' * (points != 1)})"
        own = next((section for section in found if section.title == heading), None)
        if own is None:
            yield f"has no section “### {heading}”; add it (points are those of lab.toml)"
            continue
        command = re.search(rf"`make test LAB={number} K=(\S+)`", own.body)
        if command is None:
            yield f"line {own.line}: “{heading}” lacks `make test LAB={number} K=…`"
        elif command[1] not in (exercise.id, exercise.id.partition(".")[2]):
            yield f"line {own.line}: K={command[1]} is not {exercise.id}; take its id or its name"
        row = rows.get(exercise.id)
        test = "" if command is None else command[0]
        wanted = ("", f"`{exercise.id}`", f"`{exercise.file}`", str(points))
        if row is None or tuple(row[:4]) != wanted or test not in row:
            yield (
                f"“Files, points and time” needs a row “| {' | '.join(wanted[1:])} | hours | "
                f"{test or 'test command'} |”"
            )
        elif not _HOURS.fullmatch(row[4]):
            yield f"“{row[4]}” is no time for {exercise.id}; write 20 min, 2 h, 2 to 3 h, or –"


def _rows(found: Sequence[Section]) -> Iterator[tuple[str, list[str]]]:
    for section in found:
        if section.title == "Files, points and time":
            for line in section.body.splitlines():
                cells = [cell.strip() for cell in line.split("|")]
                if len(cells) > 5 and cells[1].startswith("`"):
                    yield cells[1].strip("`"), cells

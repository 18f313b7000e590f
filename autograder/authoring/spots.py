"""Makes a lab's spot-the-error questions from their source, the answers sealed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.place import Place, read
from autograder.course import asked
from autograder.course.spot import FILE, LETTERS, Question, SpotError, dump, seal
from autograder.course.toml_table import Table


def made(place: Place) -> str | None:
    """The text of ``labs/<lab>/spot.json``; None for a lab without questions.

    Raises:
        SpotError: ``solutions/<lab>/spot.toml`` is wrong (names the question, the key, the mend).
    """
    path = place.solution / "spot.toml"
    if not path.exists():
        return None
    try:
        raw = tomllib.loads(read(path))
    except tomllib.TOMLDecodeError as error:
        raise SpotError(f"{place.shown(path)}: {error}") from None
    top = Table(f"{place.shown(path)}: top level", raw, ("question",), SpotError)
    questions: dict[str, Question] = {}
    for number, table in enumerate(top.tables("question"), start=1):
        where = f"{place.shown(path)}: question {table.get('id') or f'number {number}'}"
        question = _question(
            Table(where, table, ("id", "claim", "right", *LETTERS, "why"), SpotError)
        )
        if question.id in questions:
            raise SpotError(f"{where}: id: stands twice; rename one")
        questions[question.id] = question
    return dump(tuple(questions.values()))


def _question(table: Table) -> Question:
    name, right = table.string("id"), table.string("right", tuple(LETTERS))
    choices = {letter: table.text(letter) for letter in LETTERS}
    return Question(name, table.text("claim"), choices, seal(name, right, table.text("why")))


def stale(place: Place) -> Iterator[str]:
    """Questions that are absent from the lab, or differ from what their source gives."""
    wanted, path = made(place), target(place)
    if wanted is not None and (not path.is_file() or read(path) != wanted):
        yield f"{place.shown(path)} is not what spot.toml gives; run: {asked.command('build')}"
    if wanted is None and path.exists():
        yield f"{place.shown(path)} has no source; delete it, or write spot.toml"


def target(place: Place) -> Path:
    """Where the lab's questions lie."""
    return place.folder / FILE

"""Promises about words: hints, descriptions and messages, in English and in Chinese."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from autograder.authoring.markers import blocks
from autograder.authoring.message_uses import uses
from autograder.authoring.place import Place, read
from autograder.course.records import Outcome, Text

_CJK = re.compile("[\u4e00-\u9fff]")
_WORD = re.compile("[a-z]")
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


def exercises(place: Place) -> Iterator[str]:
    """Exercises without a TODO, checks or hint, and solution blocks without an exercise."""
    toml = place.shown(place.folder / "lab.toml")
    marked = {
        name: {exercise for exercise, _, _ in blocks(read(place.solution / name), name)}
        for name in place.lab.files
    }
    for exercise in place.lab.exercises:
        if exercise.id not in marked[exercise.file]:
            where = place.shown(place.solution / exercise.file)
            yield f"{where}: no block is marked # BEGIN SOLUTION {exercise.id}; lab.toml has it"
        if not exercise.checks:
            yield f"{toml}: exercise {exercise.id}: has no check; add [[exercise.check]]"
        if not exercise.title.en.strip() or not exercise.title.zh.strip():
            yield f"{toml}: exercise {exercise.id}: title: a language is empty; write it"
        for fault in _language_faults(exercise.hint):
            yield f"{toml}: exercise {exercise.id}: hint: {fault}"
    known = {(exercise.file, exercise.id) for exercise in place.lab.exercises}
    for name, ids in marked.items():
        for extra in sorted(ids - {id_ for file, id_ in known if file == name}):
            where = place.shown(place.solution / name)
            yield f"{where}: {extra} is marked, but lab.toml has no such exercise in {name}; add it"


def docstrings(place: Place) -> Iterator[str]:
    """Checks whose docstring is not an English and then a Chinese paragraph."""
    for check in place.lab.checks:
        for fault in _language_faults(check.title):
            yield f"{place.shown(place.folder)}/checks: {check.name}: docstring: {fault}"


def messages(place: Place) -> Iterator[str]:
    """Messages that lack a language, or whose languages take different values."""
    for path, name, entry in _messages(place):
        where = f"{place.shown(path)}: [{name}]"
        if set(entry) != {"en", "zh"}:
            yield f"{where} needs exactly the keys en and zh"
            continue
        # "{earned} / {total}" and "MLP" are the same in every language.
        wordless = entry["zh"].strip() and not _WORD.search(_PLACEHOLDER.sub("", entry["zh"]))
        for fault in _language_faults(Text(entry["en"], entry["zh"]), wordless=bool(wordless)):
            yield f"{where}: {fault}"
        en, zh = _placeholders(entry["en"]), _placeholders(entry["zh"])
        if en != zh:
            odd = ", ".join(sorted(en ^ zh))
            yield f"{where}: {odd} stands in one language only; write it the same in both"


def absent_messages(place: Place) -> Iterator[str]:
    """Keys that code or a template asks for, and no table of messages holds."""
    known = {f"{path.stem}.{name}" for path, name, _ in _messages(place)}
    for use in uses(place.root):
        if use.key not in known:
            yield f"{place.shown(use.path)}:{use.line}: {_is_absent(use.key)}"
    for outcome in Outcome:
        if f"outcome.{outcome.value}" not in known:
            yield f"the outcome {outcome.value}: {_is_absent(f'outcome.{outcome.value}')}"


def _is_absent(key: str) -> str:
    area, _, name = key.partition(".")
    return f"the message {key} does not exist; add [{name}] to messages/{area}.toml"


def _messages(place: Place) -> Iterator[tuple[Path, str, Mapping[str, str]]]:
    """Read anew, since :func:`autograder.course.messages.catalogue` stops at the first fault.

    Raises:
        ValueError: a file is no TOML, or an entry no table of texts (names both).
    """
    for path in sorted((place.root / "autograder" / "course" / "messages").glob("*.toml")):
        try:
            tables = tomllib.loads(read(path))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{place.shown(path)}: {error}") from None
        for name, entry in tables.items():
            if not isinstance(entry, dict) or not all(type(v) is str for v in entry.values()):
                raise ValueError(f"{place.shown(path)}: [{name}] needs the texts en and zh")
            yield path, name, entry


def _placeholders(text: str) -> set[str]:
    """``{name:format}`` of a format string; both languages have to show a value alike.

    The words that a number has with it are each language's own.
    """
    parts = [
        (name.partition("|")[0], form)
        for _, name, form, _ in string.Formatter().parse(text)
        if name
    ]
    return {f"{{{name}:{form}}}" if form else f"{{{name}}}" for name, form in parts}


def _language_faults(text: Text, *, wordless: bool = False) -> Iterator[str]:
    if not text.en.strip() or _CJK.search(text.en):
        yield "the English is empty or holds Chinese; English stands first"
    if not wordless and not _CJK.search(text.zh):
        yield f"the Chinese holds no Chinese character (“{text.zh}”); write it in Chinese"

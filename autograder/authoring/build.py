"""``build``: writes everything that is generated for a lab, and says what it did."""

from __future__ import annotations

import importlib.util
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.authoring import fingerprints, prove_cases, stubs
from autograder.authoring.answers import catalogue_of
from autograder.authoring.place import LabSources, read
from autograder.authoring.stubs import Fate
from autograder.checks.plan import collect
from autograder.course import labfile, suggestions
from autograder.course.labfile import Table
from autograder.course.records import LANGUAGES, Text
from autograder.course.spot import FILE, LETTERS, Form, Question, SpotError, dump, sealed
from autograder.diagnosis import bank
from autograder.reference import cases, recipes

# Makes a lab's spot-the-error questions from their source, the answers sealed.


def made_spots(place: LabSources) -> str | None:
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
    known = _classes(place)
    questions: dict[str, Question] = {}
    for number, table in enumerate(top.tables("question"), start=1):
        where = f"{place.shown(path)}: question {table.get('id') or f'number {number}'}"
        question = _question(Table(where, table, _KEYS, SpotError))
        if question.id in questions:
            raise SpotError(f"{where}: id: stands twice; rename one")
        for name in question.about:
            if name not in known:
                raise SpotError(f"{where}: about: {name} is no misconception of this lab")
        about = tuple(dict.fromkeys(known[name] for name in question.about))
        questions[question.id] = replace(question, about=about)
    return dump(tuple(questions.values()))


def _classes(place: LabSources) -> dict[str, str]:
    """The class of each mistake of the lab, by id: what is named are classes."""
    if not place.misconceptions.exists():
        return {}
    catalogue = catalogue_of(place)
    return {name: name for name in catalogue.words} | {
        entry.id: entry.class_name for entry in catalogue.entries
    }


_KEYS = ("id", "about", "claim", "right", *LETTERS, "why", "proof", "draw", "let")


def _question(table: Table) -> Question:
    name, about = table.string("id"), table.strings("about", default=[])
    rows = table.tables("draw", [])
    forms = tuple(_form(table, row) for row in rows) or (_form(table, None),)
    return Question(name, forms, about)


def _form(table: Table, row: Mapping[str, Any] | None) -> Form:
    """One form; where numbers are drawn, texts are formatted with them and what follows."""
    import math

    import numpy as np
    import torch

    names = {"torch": torch, "F": torch.nn.functional, "math": math, "np": np, **(row or {})}
    for name, rule in table.value("let", dict, {}).items():
        names[name] = _worth(table, "let", str(rule), names)
    proof = table.string("proof", default="")
    if proof and not _worth(table, "proof", proof, names):
        raise table.error("proof", f"does not hold{f' for {row}' if row else ''}")

    def text(key: str) -> Text:
        found = table.text(key)
        if row is None:
            return found
        try:
            return Text(found.en.format(**names), found.zh.format(**names))
        except (LookupError, ValueError, TypeError) as error:
            raise table.error(key, f"cannot be filled in ({error!r})") from None

    choices = {letter: text(letter) for letter in LETTERS}
    for language in LANGUAGES:
        if len({choice.in_(language) for choice in choices.values()}) < len(LETTERS):
            raise table.error("draw" if row else LETTERS, "two choices are the same")
    right = table.string("right", tuple(LETTERS))
    return sealed(text("claim"), choices, right, text("why"))


def _worth(table: Table, key: str, rule: str, names: dict[str, Any]) -> Any:
    """The value of an author's expression."""
    try:
        return eval(rule, {**names})
    except Exception as error:
        raise table.error(key, f"{rule}: {error!r}") from None


def stale_spots(place: LabSources) -> Iterator[str]:
    """Questions that are absent from the lab, or differ from what their source gives."""
    wanted, path = made_spots(place), spots_file(place)
    if wanted is not None and (not path.is_file() or read(path) != wanted):
        mend = suggestions.command("build")
        yield f"{place.shown(path)} is not what spot.toml gives; run: {mend}"
    if wanted is None and path.exists():
        yield f"{place.shown(path)} has no source; delete it, or write spot.toml"


def spots_file(place: LabSources) -> Path:
    """Return where the lab's questions lie."""
    return place.folder / FILE


# The number of hidden cases that students are told, counted from the recipes.


def made_count(place: LabSources) -> str:
    """The text of the lab's file.

    Raises:
        CasesError: the lab has no recipes.
    """
    return labfile.dump(sum(one.hidden for one in recipes.of_lab(place.solution)))


def stale_count(place: LabSources) -> Iterator[str]:
    """A file that is absent, or does not hold that number."""
    path = count_file(place)
    if not path.is_file() or read(path) != made_count(place):
        mend = suggestions.command("build")
        yield f"{place.shown(path)} is not what the recipes give; run: {mend}"


def count_file(place: LabSources) -> Path:
    """Return where it lies."""
    return place.folder / labfile.FILE


def run(lab_name: str, *, force: bool = False) -> int:
    """Build everything that is generated for a lab, and print what became of each file.

    Returns:
        0, also when files were left alone: they are named, with the reason.

    Raises:
        LabError: no lab goes by that name, or its lab.toml is wrong.
        ValueError: a source cannot be built from (names it).
    """
    for line in build(LabSources.find(lab_name), force=force):
        print(line, flush=True)
    return 0


def draft(place: LabSources, *, force: bool = False) -> Iterator[str]:
    """Write what takes no time: stubs, public cases, the number of hidden ones.

    Yields:
        As :func:`build`.
    """
    for path, fate in stubs.write(place.lab, place.solutions, force=force).items():
        yield _line(place, path, fate)
        if fate is Fate.LEFT:
            yield "           it was changed by hand; --force overwrites it"
    yield _line(place, place.cases, write_cases(place))
    count = count_file(place)
    yield _line(place, count, _written(count, made_count(place)))


def build(place: LabSources, *, force: bool = False) -> Iterator[str]:
    """Write stubs, cases, questions, fingerprints, notebooks; what is right already stays.

    Yields:
        One line per file: what became of it, its path, and why it was left alone.
    """
    yield from draft(place, force=force)
    questions = made_spots(place)
    if questions is not None:
        yield _line(place, spots_file(place), _written(spots_file(place), questions))
    if place.misconceptions.exists():
        yield from banks(place)
    if not place.notebooks:
        return
    if importlib.util.find_spec("nbformat") is None:
        yield "left       notebooks: to build them, pip install nbformat"
        return
    from autograder.authoring import notebooks

    for source in place.notebooks:
        target = source.with_suffix(".ipynb")
        stale = notebooks.stale(source, target)
        if stale:
            notebooks.write(source, target)
        yield _line(place, target, Fate.WRITTEN if stale else Fate.UNCHANGED)


def write_cases(place: LabSources) -> Fate:
    """Write the public cases, unless those that are there agree with the recipes."""
    made = prove_cases.fresh(place)
    try:
        kept = cases.load(place.cases)
        known = cases.release(place.cases) != ""
    except cases.CasesError:  # absent or broken: then it is written
        kept, known = (), False
    if known and not list(prove_cases.differences(kept, made)):
        return Fate.UNCHANGED
    _write(place.cases, cases.dump(made, torch_release=prove_cases.torch_release()))
    return Fate.WRITTEN


def banks(place: LabSources) -> Iterator[str]:
    """Write the banks of fingerprints, unless they were made of what is there now."""
    singles, made_of = None, fingerprints.made_of_singles(place)
    if not fingerprints.is_made_of(place.fingerprints, made_of, but_for_stages=True):
        singles = fingerprints.build(place)
    else:
        known, words = bank.load(place.fingerprints), catalogue_of(place).words
        if (known.classes, known.made_of) != (words, made_of):  # other words or stages only
            stages = fingerprints.of_lab(place, collect(place.folder))
            singles = replace(known, classes=words, made_of=made_of, courses=stages)
    if singles:
        _write(place.fingerprints, bank.dump(singles))
    yield _line(place, place.fingerprints, Fate.WRITTEN if singles else Fate.UNCHANGED)
    pairs_stale = not fingerprints.is_made_of(place.pairs, fingerprints.made_of(place))
    if pairs_stale:
        made = fingerprints.build_pairs(place, singles or bank.load(place.fingerprints))
        _write(place.pairs, bank.dump(made))
    yield _line(place, place.pairs, Fate.WRITTEN if pairs_stale else Fate.UNCHANGED)


def _written(path: Path, text: str) -> Fate:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return Fate.UNCHANGED
    _write(path, text.encode())
    return Fate.WRITTEN


def _write(path: Path, blob: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(blob)
    part.replace(path)


def _line(place: LabSources, path: Path, fate: Fate) -> str:
    return f"{fate.value:10} {place.shown(path)}"

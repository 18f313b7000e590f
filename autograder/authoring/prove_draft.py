"""Promises about a lab that is being written, asked in this process: seconds, and no isolation."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

from autograder.authoring import styles
from autograder.authoring.answers import (
    AnswerRequest,
    Answers,
    HandInAnswers,
    lost_of,
    reference_of,
    run_here,
    sources_of,
)
from autograder.authoring.place import LabSources, read
from autograder.authoring.prove_lab import check_faults, solution_faults, stub_faults
from autograder.checks.plan import Plan, collect
from autograder.diagnosis import misconceptions
from autograder.diagnosis.fingerprints import fingerprints, shortened
from autograder.diagnosis.misconceptions import Entry, MisconceptionError
from autograder.reference import cases, recipes

_SECRET = b"of a lab that is being written"


def whole_plan(place: LabSources) -> Plan:
    """The checks of a lab on its public cases, and on hidden ones of a known secret."""
    with tempfile.TemporaryDirectory() as scratch:
        hidden = Path(scratch) / "hidden.safetensors"
        hidden.write_bytes(cases.dump(recipes.build(recipes.of_lab(place.solution), _SECRET)))
        return collect(place.folder, ("--hidden-cases", str(hidden)))


def unfair_scores(place: LabSources) -> Iterator[str]:
    """Whatever a stub earns, and the solution or another style of it loses."""
    plan, lab = whole_plan(place), place.lab
    solution = run_here(plan, sources_of(place))[0]
    if faults := list(check_faults(solution)):
        yield from faults  # once, and not for every hand-in again
        return
    stub = {file: read(place.folder / file) for file in lab.files}
    yield from stub_faults(lab, run_here(plan, stub)[0])
    yield from solution_faults(lab, "solution", solution)
    right: dict[str, Mapping[str, str]] = {}
    for folder in styles.folders(place.name, place.root):
        right[f"style {folder.name}"] = styles.texts_of(folder, lab.files)
    for name, sources in right.items():
        yield from solution_faults(lab, name, run_here(plan, sources)[0])


def unseen_mistakes(place: LabSources) -> Iterator[str]:
    """Mistakes that do not fit, cost no point, cost other points, or are as good as another."""
    if not place.misconceptions.exists():
        return
    sources = sources_of(place)
    fitting: dict[Entry, dict[str, str]] = {}
    for entry in misconceptions.load(place.misconceptions).entries:
        try:
            fitting[entry] = misconceptions.apply(entry, sources)
        except MisconceptionError as error:
            yield str(error)
    for entry in [*fitting]:
        if fault := _no_python(entry, fitting[entry]):
            del fitting[entry]
            yield fault
    plan = collect(place.folder)
    asked = [AnswerRequest(text) for text in fitting.values()]
    answers = Answers(plan).short(asked, what="mistakes")
    families = {check.name: check.family for check in place.lab.checks}
    whole: Plan | None = None
    for entry in fitting:
        for family in sorted(set(entry.families) - set(families.values())):
            yield f"entry {entry.id}: families: no check of lab.toml is of the family {family!r}"
    for entry, answer in zip(fitting, answers, strict=True):
        if fault := _never_answers(entry, answer):
            yield fault
            continue
        lost = {families[name] for name in answer.lost}
        if lost and not (entry.families and lost.isdisjoint(entry.families)):
            continue
        whole = whole or whole_plan(place)
        hidden = sorted(lost_of(run_here(whole, fitting[entry])[0]))
        lost |= {families[name] for name in hidden}
        if not answer.lost:
            also = f"{', '.join(hidden)} fails on a hidden one" if hidden else "nor any hidden one"
            mend = "draw one that does" if hidden else "draw one that does, or it is no mistake"
            yield f"entry {entry.id}: no public case costs it a point ({also}); {mend}"
        elif lost.isdisjoint(entry.families):
            shown = '", "'.join(sorted(lost))
            yield f'entry {entry.id}: families: none of them loses points; write ["{shown}"]'
    reference, random = reference_of(plan, sources)
    rows: dict[Entry, dict[str, list[int]]] = {entry: {} for entry in fitting}
    by_id = {entry.id: entry for entry in fitting}
    for name, right in reference.items():
        traces = [((e.id,), a.items[name]) for e, a in zip(fitting, answers, strict=True)]
        prints = fingerprints(shortened(right), traces, random)
        if prints is None:
            continue
        for number, (own,) in enumerate(prints.mistakes):
            rows[by_id[own]][name] = prints.rows[number].tolist()
    for one, other in combinations(fitting, 2):
        if rows[one] and rows[one] == rows[other] and one.class_name != other.class_name:
            yield (
                f"entries {one.id} and {other.id} answer every public case alike; draw one that "
                "tells them apart, or give them one class"
            )


def _no_python(entry: Entry, sources: Mapping[str, str]) -> str:
    """Return what is wrong with the syntax of a patched solution; empty if nothing is."""
    for file, text in sources.items():
        try:
            ast.parse(text)
        except SyntaxError as error:
            return f"entry {entry.id}: its patch is no Python: {error.msg} ({file}:{error.lineno})"
    return ""


def _never_answers(entry: Entry, answer: HandInAnswers) -> str:
    """Return which slip of the author's a mistake fails by, if it fails by that alone."""
    forms = [short.form for shorts in answer.items.values() for short in shorts.values()]
    if answer.lost and not forms:
        return f"entry {entry.id}: the file cannot be imported with it; look at its patch"
    slips = [form for form in forms if ": NameError" in form or ": UnboundLocalError" in form]
    return f"entry {entry.id}: raises {slips[0]}; look at its patch" if slips else ""

"""Makes a lab's fingerprint banks: runs the checks on the solution with every mistake in it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from autograder.authoring import styles
from autograder.authoring.answers import (
    AnswerRequest,
    Answers,
    Traces,
    catalogue_of,
    reference_of,
    sources_of,
    together,
)
from autograder.authoring.place import LabSources
from autograder.authoring.recording import code_of, content, hashed
from autograder.checks.plan import Plan, collect
from autograder.course.records import Text
from autograder.diagnosis import misconceptions
from autograder.diagnosis.bank import VERSION, Bank, BankError, load
from autograder.diagnosis.fingerprints import FAR, Fingerprints, Short, fingerprints, shortened
from autograder.diagnosis.items import Stage, StagePlan, Trace
from autograder.worker.session import summary
from autograder.worker.values import to_torch

# Computes the stages that a lab's ``solutions/<lab>/stages.py`` describes, for its bank.


@dataclass(frozen=True, init=False)
class Step:
    """A stage with its tensor (or tensors: each way to compute it that is as good)."""

    id: str
    name: Text
    after: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    ordered: bool

    def __init__(
        self, id: str, name: Text, after: tuple[str, ...], *tensors: Tensor, ordered: bool = False
    ) -> None:
        fields = {"id": id, "name": name, "after": after, "tensors": tensors, "ordered": ordered}
        for key, value in fields.items():
            object.__setattr__(self, key, value)


Steps = Iterator[Step]


def of_lab(place: LabSources, plan: Plan) -> dict[str, StagePlan]:
    """The stages of every exercise that the lab describes, on the first case of their check.

    Raises:
        ValueError: a check that is named has no case.
    """
    path = place.solution / "stages.py"
    if not path.is_file():
        return {}
    spec = importlib.util.spec_from_file_location(f"stages_of_{place.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for exercise, (check, steps_of) in module.STAGES.items():
        check_cases = plan.check_cases.get(check, ())
        if not check_cases:
            raise ValueError(f"{path}: {exercise}: {check} is no check with cases")
        case = check_cases[0].case
        given = {
            name: to_torch(tensor) for name, tensor in {**case.tensors, **case.weights}.items()
        }
        with torch.no_grad():
            stages = tuple(_stage(step) for step in steps_of(case, given))
        found[exercise] = StagePlan(check, case.name, stages)
    return found


def _stage(step: Step) -> Stage:
    rows = tuple(tuple(summary(tensor.contiguous())) for tensor in step.tensors)
    return Stage(step.id, step.name, step.after, rows, step.ordered)


ROUNDED = 1e-4  # relative: by so much right code differs that leaves nothing open
_NO_CHECKS = ("behaviours.py", "experiments.py", "questions.py", "confirmations.py")


def made_of(place: LabSources) -> str:
    """Hash of what fingerprints hang on, but for the libraries: no words, points or docstrings."""
    lab = place.lab
    asked = [[e.id, e.file, [[c.name, c.needs, c.fresh] for c in e.checks]] for e in lab.exercises]
    mistakes = [
        [e.id, e.class_name, e.file, [[p.old, p.new] for p in e.patches]]
        for e in catalogue_of(place).entries
    ]
    files = (place.folder / "checks").glob("*.py")
    checks = (path for path in sorted(files) if path.name not in _NO_CHECKS)
    code = [code_of(path, words=False) for path in checks]
    code += [code_of(place.solution / name) for name in lab.files]
    about = json.dumps([lab.given, asked, mistakes])
    return hashed(str(VERSION), about, *code, content(place.cases))


def made_of_singles(place: LabSources) -> str:
    """The same, and behind a space the hash of the stages, where the lab describes any."""
    stages = place.solution / "stages.py"
    if not stages.is_file():
        return made_of(place)
    return f"{made_of(place)} {hashed(stages.read_text(encoding='utf-8'))}"


def is_made_of(path: Path, sources: str, *, but_for_stages: bool = False) -> bool:
    """Return whether the bank at ``path`` was made from sources of this hash."""
    try:
        found = load(path).made_of
    except BankError:
        return False
    return found.split()[:1] == sources.split()[:1] if but_for_stages else found == sources


def build(place: LabSources) -> Bank:
    """The bank of single mistakes, which students get too.

    Raises:
        MisconceptionError: the list is wrong, or a patch does not fit.
        ValueError: the checks cannot be collected.
    """
    catalogue, sources = catalogue_of(place), sources_of(place)
    plan = collect(place.folder)
    reference, random = reference_of(plan, sources)
    wanted = [AnswerRequest(misconceptions.apply(entry, sources)) for entry in catalogue.entries]
    answers = Answers(plan).short(wanted, what="mistakes")
    traces = [((e.class_name,), a.items) for e, a in zip(catalogue.entries, answers, strict=True)]
    free = left_open(place, plan, reference) - random
    found: dict[str, Fingerprints] = {}
    for name, right in reference.items():
        told = [(c, t[name]) for c, t in traces]
        prints = fingerprints(shortened(right), told, random, free)
        if prints is not None:
            found[name] = prints
    stages = of_lab(place, plan)
    return Bank(found, catalogue.words, made_of_singles(place), stages)


def left_open(place: LabSources, plan: Plan, reference: Traces) -> set[str]:
    """Keys of items that the right styles of a lab do not all answer as the solution does."""
    folders = styles.folders(place.name, place.root)
    wanted = [AnswerRequest(styles.texts_of(folder, place.lab.files)) for folder in folders]
    answers = Answers(plan).short(wanted, what="right styles")
    found: set[str] = set()
    for name, trace in reference.items():
        right = shortened(trace)
        for answer in answers:
            got = answer.items[name]
            found |= {k for k in {*right, *got} if not _is_same(right.get(k), got.get(k))}
    return found


def _is_same(one: Short | None, other: Short | None) -> bool:
    if one is None or other is None or one.form != other.form:
        return False
    gap = float(np.linalg.norm(one.vector - other.vector)) * one.weight
    return gap <= ROUNDED * (max(one.norm, other.norm) or 1.0)


# The bank of two mistakes at once, for graders: too many for all items, so for telling ones.

WIDTH = 3  # numbers per item: with a dozen items these are enough
APART = 1e-2  # an item tells two mistakes apart when they are farther from each other than this


def build_pairs(place: LabSources, singles: Bank) -> Bank:
    """Fingerprints of all pairs of mistakes that show in one exercise.

    Those whose answers are those of one mistake alone stay, too: a hand-in may not be asked what
    tells another pair from them, and then neither may be named.

    Raises:
        MisconceptionError: the list is wrong.
        ValueError: the checks cannot be collected.
    """
    catalogue, sources = catalogue_of(place), sources_of(place)
    plan = collect(place.folder)
    telling = {name: telling_items(prints) for name, prints in singles.exercises.items()}
    shows = {name: {c for (c,) in prints.mistakes} for name, prints in singles.exercises.items()}
    reference, random = reference_of(plan, sources)
    kept: dict[str, list[tuple[tuple[str, ...], dict[str, Short]]]] = {name: [] for name in telling}
    pairs, wanted = [], []
    # Every entry, since those of one class may differ in company.
    for entries in combinations(catalogue.entries, 2):
        pair = tuple(entry.class_name for entry in entries)
        both = [name for name, classes in shows.items() if classes.issuperset(pair)]
        made = together(entries, sources) if both and len(set(pair)) > 1 else None
        if made is not None:
            pairs.append(pair)
            wanted.append(AnswerRequest(made, {name: telling[name] for name in both}))
    answers = Answers(plan).short(wanted, what="pairs of mistakes", width=WIDTH)
    for pair, answer in zip(pairs, answers, strict=True):
        for name, short in answer.items.items():
            kept[name].append((pair, short))
    found = {
        name: prints
        for name, traces in kept.items()
        if (prints := _prints(reference[name], traces, telling[name], random)) is not None
    }
    return Bank(found, {}, made_of(place))


def _prints(
    reference: Trace,
    traces: list[tuple[tuple[str, ...], dict[str, Short]]],
    telling: list[str],
    random: frozenset[str],
) -> Fingerprints | None:
    right = {key: item for key, item in reference.items() if key in telling}
    return fingerprints(shortened(right, WIDTH), traces, random)


def telling_items(prints: Fingerprints) -> list[str]:
    """Few items that tell every single mistake from every other and from the right solution."""
    apart = [_apart(prints, column) for column in range(len(prints.items))]
    missing = np.logical_or.reduce(apart)
    chosen: list[int] = []
    while missing.any():
        gains = [int((tells & missing).sum()) for tells in apart]
        best = int(np.argmax(gains))
        chosen.append(best)
        missing = missing & ~apart[best]
    return [prints.items[column][0] for column in chosen]


def _apart(prints: Fingerprints, column: int) -> NDArray[np.bool_]:
    """``[mistakes + 1, mistakes + 1]``: which are told apart by an item; the last is right."""
    rows = np.append(prints.rows[:, column], prints.reference[column])
    vectors, norms = prints.vectors[rows].astype(np.float64), prints.norms[rows]
    gaps = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    gaps *= prints.weights[column]
    gaps /= np.maximum(np.maximum(norms[:, None], norms[None]), 1e-30)
    forms = np.array([prints.forms[row] if row >= 0 else "" for row in rows])
    found: NDArray[np.bool_] = np.where(forms[:, None] == forms[None], gaps, FAR) > APART
    return found

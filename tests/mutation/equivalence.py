"""Shows that a mutant is no mistake: it answers 200 random cases as the solution does."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch

from autograder.authoring.recording import Recording, content, hashed, state_of_ours, text_of
from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab
from autograder.reference.compare import LIMITS, difference
from autograder.sandbox.local import cpu_limit
from autograder.worker.loader import StudentModules, read_sources

CASES = 200
SECONDS = 0.4  # of CPU for one case, which takes some thousandths: a loop that never ends
LIMIT = 1e-6  # relative, in float32; the grader lets 1e-5 pass
Modules = Mapping[str, ModuleType]
Answers = Mapping[str, Any]  # tensors, numbers, dicts of numbers, by what was asked
Ask = Callable[..., Answers]  # modules, number of the case; in some labs: of which files


def random_cases(lab: str) -> Ask:
    """``answers(modules, number)`` of a lab: what its solution answers to one random case."""
    short = lab.partition("_")[0]
    ask: Ask = _asking(short).answers
    return ask


def _asking(short: str) -> ModuleType:
    return importlib.import_module(f"tests.mutation.{short}.random_cases")


def _asked_of(lab: str, sources: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """The files that differ, as an argument, where a lab's cases can be asked of each alone."""
    if not hasattr(_asking(lab.partition("_")[0]), "BY_FILE"):
        return ()
    right = _right_sources(lab)
    return (tuple(f.removesuffix(".py") for f, text in sources.items() if right[f] != text),)


def unlike(lab: Lab, sources: Mapping[str, str], cases: int = CASES) -> str:
    """Where these sources answer otherwise than the solution first; empty if nowhere.

    Args:
        lab: whose solution and random cases are taken.
        sources: text of every file by name.
        cases: how many cases to try.

    Raises:
        StaleRecordingError: they answer otherwise than is recorded.
    """

    def answered() -> str:
        # Weights are loaded, all of them: drawing random ones first would take a tenth of the time.
        drawn = patch.object(torch.nn.Linear, "reset_parameters", _zeroed)
        with warnings.catch_warnings(), drawn:
            warnings.simplefilter("ignore")  # torch's, about what only a mutant does
            return _unlike(lab, sources, cases)

    key = hashed(_state(lab), text_of(sources), str(cases))
    return str(_recording().answer(key, answered, f"{lab.name}, random cases"))


@cache
def _recording() -> Recording:
    return Recording()


@cache
def _state(lab: Lab) -> str:
    """What an answer hangs on beside the sources: the solution, and how cases are drawn."""
    here = Path(__file__).parent
    drawn = [*here.glob("*.py"), *(here / lab.name.partition("_")[0]).glob("*.py")]
    solution = [SOLUTIONS / lab.name / name for name in lab.files]
    return hashed("random cases", state_of_ours(), *map(content, sorted(drawn) + solution))


def _unlike(lab: Lab, sources: Mapping[str, str], cases: int) -> str:
    ask, asked_of = random_cases(lab.name), _asked_of(lab.name, sources)
    try:
        modules = _modules(sources)
    except Exception as error:
        return f"import: {error!r}"
    for number in range(cases):
        try:
            with cpu_limit(SECONDS) as over:
                answers = ask(modules, number, *asked_of)
        except Exception as error:
            return f"case {number}: {error!r}"
        if over:
            return f"case {number}: it does not end"
        for name, want in _right(lab.name, number, *asked_of).items():
            if fault := _fault(answers.get(name), want):
                return f"case {number}: {name}: {fault}"
    return ""


@cache
def _solution(lab: str) -> Modules:
    return _modules(_right_sources(lab))


@cache
def _right_sources(lab: str) -> Mapping[str, str]:
    folder = SOLUTIONS / lab
    return read_sources(folder, sorted(path.name for path in folder.glob("*.py")))[0]


@cache
def _right(lab: str, number: int, *files: tuple[str, ...]) -> Answers:
    return random_cases(lab)(_solution(lab), number, *files)


def _zeroed(layer: torch.nn.Linear) -> None:
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()


def _modules(sources: Mapping[str, str]) -> Modules:
    """The files as modules, in namespaces of their own."""
    loaded = StudentModules(sources, {name: f"<mutant>/{name}" for name in sources}).install()
    try:
        return {name.removesuffix(".py"): loaded.module(name) for name in sources}
    finally:
        loaded.remove()


def _fault(got: Any, want: Any) -> str:
    """How two answers differ; empty if they do not."""
    if type(got) is not type(want):
        return f"{type(got).__name__}, not {type(want).__name__}"
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"{got!r}, not {want!r}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
    if torch.equal(got, want):
        return ""
    if want.is_complex():
        got, want = torch.view_as_real(got), torch.view_as_real(want)
    if not want.is_floating_point():
        return "" if torch.equal(got, want) else f"{got.tolist()}, not {want.tolist()}"
    narrow = LIMITS[str(want.dtype).removeprefix("torch.")].tensor
    limit = LIMIT if want.dtype == torch.float32 else narrow
    error = difference(got.detach().double().numpy(), want.detach().double().numpy()).tensor
    return "" if error <= limit else f"off by {error:.1e} (relative), allowed {limit:.0e}"

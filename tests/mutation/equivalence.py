"""Shows that a mutant is no mistake: it answers 200 random cases as the solution does.

A change inside of a function is asked what takes that function, and nothing else.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from functools import cache
from itertools import product
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from unittest.mock import patch

import torch

from autograder.authoring.recording import Recording, content, hashed, state_of_ours, text_of
from autograder.course.labfile import SOLUTIONS
from autograder.course.records import Lab
from autograder.reference.compare import LIMITS, difference
from autograder.sandbox.local import cpu_limit
from autograder.worker.loader import StudentModules, read_sources
from tests.mutation.dice import Dice
from tests.mutation.functions import spans

FOLDER = "<mutant>/"  # where functions say they are from
CASES = 200
SECONDS = 0.4, 1.2  # of CPU for one case, which takes some thousandths; and the second time
LIMIT = 1e-6  # relative, in float32; the grader lets 1e-5 pass
Modules = Mapping[str, ModuleType]
Answers = Mapping[str, Any]  # tensors, numbers, dicts of numbers, by what was asked
Part = Callable[[ModuleType, Dice, int], Answers]  # one question to a file: dice, number of a case
Places = frozenset[tuple[str, int]]  # files, and lines where functions begin


@cache
def _parts(lab: str) -> tuple[tuple[str, Part], ...]:
    """Questions to the files of a lab, each with the name of the module that it asks."""
    cases = importlib.import_module(f"tests.mutation.{lab.partition('_')[0]}.random_cases")
    return tuple((module, part) for module, parts in cases.PARTS.items() for part in parts)


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
        # As in a worker: oneDNN compiles a kernel for every new shape of a product in 16 bits.
        # (torch has no types for this switch.)
        plain = torch.backends.mkldnn.flags(enabled=False)  # type: ignore[no-untyped-call]
        # Torch warns of what only a mutant does, and of this switch.
        with warnings.catch_warnings(action="ignore"), drawn, plain:
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
    changed = _changed(_right_sources(lab.name), sources)
    try:
        modules = _modules(sources)
    except Exception as error:
        return f"import: {error!r}"
    for number, place in product(range(cases), range(len(_parts(lab.name)))):
        want, reached = _right(lab.name, number, place)
        if changed and not changed & reached:
            continue
        try:
            for seconds in SECONDS:
                with cpu_limit(seconds) as over:
                    answers = _answers(lab.name, modules, number, place)
                if not over:
                    break
        except Exception as error:
            return f"case {number}: {error!r}"
        if over:
            return f"case {number}: it does not end"
        for name, value in want.items():
            if fault := _fault(answers.get(name), value):
                return f"case {number}: {name}: {fault}"
    return ""


def _answers(lab: str, modules: Modules, number: int, place: int) -> Answers:
    module, part = _parts(lab)[place]
    with torch.no_grad():
        return part(modules[module], Dice(number), number)


@cache
def _right(lab: str, number: int, place: int) -> tuple[Answers, Places]:
    """What the solution answers to a question, and which of its functions that takes."""
    reached = set()

    def follow(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(FOLDER):
            reached.add((file.removeprefix(FOLDER), frame.f_code.co_firstlineno))

    modules = _solution(lab)
    sys.setprofile(follow)
    try:
        answers = _answers(lab, modules, number, place)
    finally:
        sys.setprofile(None)
    return answers, frozenset(reached)


def _changed(right: Mapping[str, str], sources: Mapping[str, str]) -> Places:
    """All places in the functions that differ; none where something outside of functions does."""
    found: set[tuple[str, int]] = set()
    for file, text in sources.items():
        lines = right[file].splitlines(), text.splitlines()
        steps = SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
        for _, before, end, *_ in (step for step in steps if step[0] != "equal"):
            first, last = min(before + 1, end), max(before + 1, end)  # what is put in: between
            around = [span for span in spans(right[file]) if span[0] <= first and last <= span[1]]
            if not around:
                return frozenset()
            found |= {(file, line) for line in range(around[0][0], around[0][1] + 1)}
    return frozenset(found)


@cache
def _solution(lab: str) -> Modules:
    return _modules(_right_sources(lab))


@cache
def _right_sources(lab: str) -> Mapping[str, str]:
    folder = SOLUTIONS / lab
    return read_sources(folder, sorted(path.name for path in folder.glob("*.py")))[0]


def _zeroed(layer: torch.nn.Linear) -> None:
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()


def _modules(sources: Mapping[str, str]) -> Modules:
    """The files as modules, in namespaces of their own."""
    loaded = StudentModules(sources, {name: FOLDER + name for name in sources}).install()
    try:
        return {name.removesuffix(".py"): loaded.module(name) for name in sources}
    finally:
        loaded.remove()


def _fault(got: Any, want: Any) -> str:
    """How two answers differ; empty if they do not."""
    if type(got) is not type(want):
        return f"{type(got).__name__}, not {type(want).__name__}"
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"not {want!r}"  # what comes may be too long to be written
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

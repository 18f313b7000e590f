"""The right solutions of lab 5 are right, really different, and ordinary torch.distributed code.

They guard the promise that every right style scores full marks, so each must agree with the
reference, and no two may ask torch for the same multiset of operators. Under torch's own gloo, in
real processes, they give what they give in the grader.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from autograder.authoring.styles import text_of
from autograder.course.labfile import ROOT
from autograder.worker import collective
from tests.styles import gloo_ranks, solutions
from tests.styles.solutions import OperatorCounter, error, load, numbers

STYLES = solutions.STYLES / "lab5"
REFERENCE = solutions.SOLUTIONS / "lab5_tensor_parallel"
FOLDERS = solutions.styles("lab5")
LIMIT = 1e-6


@pytest.fixture(autouse=True)
def one_rank() -> Iterator[None]:
    """The default group of torch.distributed, with this process alone in it."""
    collective.join(0, 1)
    yield
    collective.leave()


@cache
def operators(folder: Path) -> Counter[str]:
    """The multiset of operators of two layers, loading among them."""
    counter = OperatorCounter()
    with counter:
        gloo_ranks.answer(folder)
    return counter.seen


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return STYLES / str(request.param)


def test_there_are_enough_styles() -> None:
    assert len(FOLDERS) >= 8


def bodies(text: str) -> set[str]:
    """Every function without its docstring, as normalised text."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            found.add(f"{node.name}: " + "; ".join(map(ast.unparse, body)))
    return found


def test_each_model_has_functions_of_its_own() -> None:
    paths = {"solution": REFERENCE, **{name: STYLES / name for name in FOLDERS}}
    written = {name: bodies(text_of(at, "model.py")) for name, at in paths.items()}
    for name in FOLDERS:
        others = set().union(*(theirs for other, theirs in written.items() if other != name))
        assert len(written[name] - others) >= 2, name


def test_operators_differ_from_every_other_style(folder: Path) -> None:
    assert operators(folder), "no operator was seen"
    everything = [REFERENCE, *(STYLES / name for name in FOLDERS)]
    twins = [p.name for p in everything if p != folder and operators(p) == operators(folder)]
    assert not twins, f"{folder.name} dispatches the same operators as {', '.join(twins)}"


def test_one_rank_agrees_with_the_reference(folder: Path) -> None:
    want = gloo_ranks.expected()
    assert error(gloo_ranks.answer(folder), want) <= LIMIT
    assert error(gloo_ranks.answer(REFERENCE), want) <= LIMIT


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 3e-2), (torch.float16, 5e-3)])
def test_half_precision_runs(folder: Path, dtype: torch.dtype, limit: float) -> None:
    cu = torch.tensor([0, 3, 9], dtype=torch.int32)
    q, k = numbers(9, 6, 8, seed=1).to(dtype), numbers(9, 2, 8, seed=2).to(dtype)
    actual = load(folder).attention.flat_attention(q, k, k, cu)
    assert actual.dtype == dtype
    assert error(actual, load(REFERENCE).attention.flat_attention(q, k, k, cu)) <= limit
    x = numbers(5, 24, seed=3).to(dtype)
    assert load(folder).mlp.SiluAndMul()(x).dtype == dtype


def under_gloo(folders: list[Path]) -> dict[str, dict[str, list[float]]]:
    """Errors by folder, number of ranks, and rank."""
    command = [sys.executable, "-m", "tests.styles.gloo_ranks", *map(str, folders)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, list[float]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_the_solution_is_right_under_gloo() -> None:
    (found,) = under_gloo([REFERENCE]).values()
    assert {world: len(errors) for world, errors in found.items()} == {"1": 1, "2": 2, "4": 4}
    assert max(max(errors) for errors in found.values()) <= LIMIT


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_every_style_is_right_under_gloo() -> None:
    found = under_gloo([STYLES / name for name in FOLDERS])
    assert len(found) == len(FOLDERS)
    for name, by_world in found.items():
        assert max(max(errors) for errors in by_world.values()) <= LIMIT, name

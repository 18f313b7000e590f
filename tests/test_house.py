"""The house is in order: types hold, and every lab keeps what is promised of it."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.labfile import ROOT
from tests.labs import ALWAYS, changed_labs

NAMES = sorted(path.parent.name for path in labfile.LABS.glob("*/lab.toml"))
AT_ONCE = [name for name in NAMES if name.split("_")[0] in {ALWAYS, *changed_labs()}]
AUDIT = (
    "import sys; from autograder.authoring import audit; sys.exit(audit.run_all(1, sys.argv[1:]))"
)


def test_types_hold() -> None:
    files = ("autograder", "benchmarks", "labs", "solutions", "tools")
    expect_success("-m", "mypy", *files)


@pytest.mark.slow
def test_types_of_tests_hold_as_well() -> None:
    expect_success("-m", "mypy")


@pytest.mark.parametrize(
    "labs",
    [
        pytest.param(AT_ONCE, id="at once"),
        pytest.param(
            [name for name in NAMES if name not in AT_ONCE], id="others", marks=pytest.mark.slow
        ),
    ],
)
def test_every_lab_keeps_its_promises(labs: list[str]) -> None:
    told = expect_success("-c", AUDIT, *labs) if labs else ""
    assert told.count("promises kept, 0 broken, 0 not proved") == len(labs)


def expect_success(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=labfile.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# What a docstring refers to: ``:class:`Plan` ``, and what stands under "Raises:".
REFERRED = re.compile(r":(?:class|data|exc|func|meth|mod):`~?(?:[\w.]*\.)?(\w+)`")
PRONOUN = re.compile(r"(?:What|Which|Who|Whose|Whoever)\b")  # no docstring begins with one
RAISED = re.compile(r"^Raises:\n(?: .*\n?|\n)+", re.MULTILINE)
RAISES = re.compile(r"^ {4}(\w+)(?: \w+)?:", re.MULTILINE)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def faults(path: Path, names: set[str]) -> Iterator[str]:
    """Names that docstrings of a file refer to and that are not there; pronouns at the head."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        told = (isinstance(node, DOCUMENTED) and ast.get_docstring(node)) or ""
        raised = [name for part in RAISED.findall(told) for name in RAISES.findall(part)]
        yield from {*REFERRED.findall(told), *raised} - names
        yield from PRONOUN.findall(told[:8])


def test_docstrings_begin_with_what_it_is_and_refer_to_what_is_there() -> None:
    words = re.compile(
        r"^ *(?:async )?(?:class|def) (\w+)|^ *(\w+)(?:: [^=\n]+)? =|^ +(\w+): ", re.M
    )
    rooms = ("autograder", "benchmarks", "labs/commands", "labs/given", "tools")
    files = [path for room in rooms for path in ROOT.glob(f"{room}/**/*.py")]
    names = {*dir(builtins), *sys.stdlib_module_names, *(path.stem for path in files)}
    for path in files:
        found = words.findall(path.read_text(encoding="utf-8"))
        names |= {name for each in found for name in each if name}
    found = [(path, name) for path in files for name in faults(path, names)]
    assert found == []

"""``adopt``: writes a lab whose checks are the tests of a pytest file, to move on from there."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from autograder.authoring import build, new_lab
from autograder.authoring.place import LabSources, read
from autograder.course import suggestions
from autograder.course.labfile import LabError, parsed

FOLDER = "tests"
TOML = """\
title.en = "$lab"
files = ["$file"]
tests = "$folder" # run beside the student's code: nothing is hidden, no mistake is named
families = ["tests"]
forbidden = []

[limits] # of one check, in the process that runs student code
cpu_seconds = 10
wall_seconds = 60
memory_mib = 1024
lost_workers = 3

[[exercise]]
id = "$id"
file = "$file"
title.en = "$file"
hint.en = "Read the test that fails: what does it call, and what does it expect?"
check = [
    { name = "test_${stem}_imports", points = 0, family = "tests" },
$rows
]
"""
ROW = '    { name = "$name", points = $points, family = "tests" },'
CHECKS = '''\
"""Checks: the tests of ``$tests``, one each, to be rewritten one by one (author's guide)."""

from __future__ import annotations

from autograder.checks.adopted import expect_test
from autograder.checks.expect import cases
from autograder.reference.cases import Case
from autograder.sandbox.student import Student

FOLDER = "$folder"


@cases("tests")
def test_${stem}_imports(student: Student, case: Case) -> None:
    """The file can be imported."""
    student.import_file("$stem")
'''
CHECK = '''

@cases("tests")
def $name(student: Student, case: Case) -> None:
    """$title"""
    expect_test(student, case, FOLDER, "$tests::$node")
'''
CASES = '''\
"""Cases: none but the file of tests, until checks draw their own."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe


@recipe(public=1, hidden=0)
def tests(draw: Draw) -> Draft:
    """What the tests bring is all there is."""
    return draft(Text("$tests"), {})
'''


@dataclass(frozen=True)
class Test:
    """A test of a pytest file: how its check is called, its place in the file, its title."""

    name: str
    node: str
    title: str


def tests_of(path: Path) -> list[Test]:
    """The tests of a file in their order, those of its classes among them.

    Raises:
        LabError: it cannot be read, or holds none.
    """
    found: list[Test] = []
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found += (_test(inner, node.name) for inner in node.body if _is_test(inner))
        elif _is_test(node):
            found.append(_test(node))
    if not found:
        raise LabError(f"{path}: no function in it is a test; pytest knows them by test_…")
    last = {test.name: test for test in found}  # as pytest does, where a name stands twice
    return list(last.values())


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def _test(node: ast.stmt, group: str = "") -> Test:
    assert isinstance(node, ast.FunctionDef)
    plain = node.name.removeprefix("test").strip("_")
    words = f"{group.removeprefix('Test')}_{plain}".strip("_")
    title = (ast.get_docstring(node) or f"{words.replace('_', ' ')}.").split("\n\n")[0]
    title = title[:1].upper() + title[1:]
    safe = " ".join(title.split()).replace("\\", "/").replace('"', "'")
    return Test(f"test_{words.lower()}", f"{group}::{node.name}".strip(":"), safe)


def marked(text: str, exercise: str) -> str:
    """A file with markers of an exercise around the body of every function.

    A function in one line stays as it is: there is no line to put a marker on.
    """
    lines = text.splitlines()
    for first, last in sorted(_bodies(ast.parse(text)), reverse=True):
        indent = lines[first - 1][: -len(lines[first - 1].lstrip()) or None]
        lines.insert(last, f"{indent}# END SOLUTION")
        lines.insert(first - 1, f"{indent}# BEGIN SOLUTION {exercise}")
    return "\n".join(lines) + "\n"


def _bodies(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """First and last line of what functions do, their docstrings left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and body[0].lineno > node.body[0].lineno - (body is node.body) >= node.lineno:
                yield body[0].lineno, body[-1].end_lineno or body[-1].lineno
        else:
            yield from _bodies(node)


def run(tests: Path, file: Path, name: str, root: Path) -> int:
    """Write a lab, and run its checks on the solution in a jailed worker.

    Args:
        tests: a pytest file that imports what it tests from ``file``, by its plain name.
        file: a right solution.
        name: of the lab; empty: that of ``file``.
        root: of the course.

    Returns:
        0 when the solution passes all of them, else 1.

    Raises:
        LabError: a file is no Python or holds no tests, or the lab exists.
    """
    found, stem = tests_of(tests), file.stem
    place = LabSources(root, name or stem)
    new_lab.look(place, [file.name])
    parsed(file)
    text = read(file)
    if "# BEGIN SOLUTION" in text:
        raise LabError(f"{file} has markers already: make a lab of it with new-lab")
    folder = f"labs/{place.name}/{FOLDER}"
    values = {"lab": place.name, "file": file.name, "stem": stem, "id": f"{place.name}.{stem}"}
    values |= {"folder": folder, "tests": tests.name}
    base, more = divmod(100, len(found))
    rows, checks = [], Template(CHECKS).substitute(values)
    for number, test in enumerate(found):
        own = values | {"name": test.name, "node": test.node, "title": test.title}
        rows.append(Template(ROW).substitute(own, points=base + (number < more)))
        checks += Template(CHECK).substitute(own)
    toml = Template(TOML).substitute(values, rows="\n".join(rows))
    handout = Template(new_lab.HANDOUT).substitute(values, rows="", todos="")
    written = {
        place.folder / "lab.toml": toml,
        place.folder / "checks" / f"test_{stem}.py": checks,
        place.folder / "README.md": handout,
        place.folder / FOLDER / tests.name: read(tests),
        place.solution / "cases" / "__init__.py": Template(CASES).substitute(values),
        place.solution / file.name: marked(text, values["id"]),
    }
    new_lab.write(place, written.items())
    if (tests.parent / "conftest.py").is_file():
        shutil.copy(tests.parent / "conftest.py", place.folder / FOLDER)
    for line in build.draft(place):
        print(line)
    print(f"\n{file.name} against {tests.name}, one check for each test, in a jailed worker:\n")
    command = [sys.executable, "-m", "autograder", "--course", str(root), "test"]
    command += ["--lab", place.name, "--folder", str(place.solution)]
    status = subprocess.run(command).returncode
    print(f"next: {suggestions.command('try')} --lab {place.name}")
    return status

"""A lab made of a pytest file: its tests are checks, run in the jail beside the student's code."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.authoring import adopt
from autograder.authoring.stubs import stub_of
from autograder.course.labfile import LabError

SOLUTION = '''\
import torch


def softmax(x, dim=-1):
    """Softmax over a dimension."""
    # the largest is taken away first
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


class Head(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(n))

    def forward(self, x):
        return softmax(x * self.w)
'''
TESTS = '''\
import pytest
import torch
from softmax import Head, softmax


def test_rows(rows):
    """Rows sum to one."""
    torch.testing.assert_close(softmax(rows).sum(-1), torch.ones(3))


@pytest.mark.parametrize("dim", [1, 0])
def test_dims(rows, dim):
    assert softmax(rows, dim).sum(dim)[0].item() == pytest.approx(1)


class TestHead:
    def test_learns(self, rows):
        head = Head(4)
        head(rows).square().sum().backward()
        assert head.w.grad is not None
'''
FIXTURES = """\
import pytest
import torch


@pytest.fixture
def rows():
    return torch.arange(12.0).reshape(3, 4)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "softmax.py").write_text(SOLUTION)
    (folder / "test_softmax.py").write_text(TESTS)
    (folder / "conftest.py").write_text(FIXTURES)
    return folder


class Course:
    """A folder in which commands are given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def run(self, *words: str | Path, status: int = 0) -> str:
        line = [sys.executable, "-m", "autograder", *map(str, words), "--lang", "en"]
        done = subprocess.run(line, cwd=self.root, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.mark.slow
def test_the_tests_of_a_course_grade_its_class(tmp_path: Path, source: Path) -> None:
    course = Course(tmp_path / "course")
    adopted = course.run(
        "adopt", source / "test_softmax.py", "--file", source / "softmax.py", "--name", "smooth"
    )
    assert "100 of 100 points" in adopted
    assert "0 broken" in course.run("try", "--lab", "smooth")
    stub = (course.root / "labs" / "smooth" / "softmax.py").read_text()
    hand_ins = {
        "right": SOLUTION,
        "stub": stub,
        "wrong": SOLUTION.replace("e.sum(dim,", "e.sum(-1,"),
        "raises": SOLUTION.replace("    e = ", "    1 / 0\n    e = "),
        "endless": SOLUTION.replace("    e = ", "    while True: pass\n    e = "),
    }
    for name, text in hand_ins.items():
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "softmax.py").write_text(text)
    settings = course.root / "labs" / "smooth" / "lab.toml"
    patient = settings.read_text()
    assert "cpu_seconds = 10" in patient
    settings.write_text(patient.replace("cpu_seconds = 10", "cpu_seconds = 2"))  # for the endless
    out = tmp_path / "graded"
    course.run("grade", tmp_path / "class", "--lab", "smooth", "--out", out)
    graded = json.loads((out / "class.json").read_text())
    totals = {one["student"]: one["score"]["earned"] for one in graded["hand_ins"]}
    assert totals == {"right": 100, "stub": 0, "wrong": 67, "raises": 0, "endless": 0}
    page = (out / "wrong" / "report.md").read_text()
    assert "[0] assert" in page and "could change what they say" in page
    assert "ZeroDivisionError" in (out / "raises" / "report.md").read_text()


@pytest.mark.slow
def test_what_a_solution_does_not_pass_is_told(tmp_path: Path, source: Path) -> None:
    with (source / "test_softmax.py").open("a") as file:
        file.write('\n\n@pytest.mark.skip(reason="needs a GPU")\ndef test_gpu():\n    assert 1\n')
    words = "adopt", source / "test_softmax.py", "--file", source / "softmax.py"
    adopted = Course(tmp_path / "course").run(*words, status=1)
    assert "75/100" in adopted.replace(" ", "") and "needs a GPU" in adopted


def test_every_body_becomes_a_todo() -> None:
    text = SOLUTION + (
        "\n\ndef one(x): return x\n\n\ndef told():\n    '''Only words.'''\n\n\n"
        "@torch.no_grad()\ndef outer(x):\n    def inner(y):\n        return y\n\n"
        "    return (\n        inner(x)\n    )\n"
    )
    marked = adopt.marked(text, "smooth.softmax")
    assert ast.dump(ast.parse(marked)) == ast.dump(ast.parse(text))
    stub = stub_of(marked, "softmax.py", {"smooth.softmax": "write it"})
    ast.parse(stub)
    assert stub.count("raise NotImplementedError") == 4
    assert "e.sum" not in stub and "inner" not in stub
    assert '"""Softmax over a dimension."""' in stub and "def one(x): return x" in stub


@pytest.mark.parametrize(
    ("tests", "file", "said"),
    [
        ("def check():\n    pass\n", SOLUTION, "no function in it is a test"),
        ("def test_(:\n", SOLUTION, "Python"),
        (TESTS, "def softmax(:\n", "Python"),
        (TESTS, "# BEGIN SOLUTION a.b\n# END SOLUTION\n", "new-lab"),
    ],
)
def test_what_cannot_be_adopted_is_said(tmp_path: Path, tests: str, file: str, said: str) -> None:
    (tmp_path / "test_softmax.py").write_text(tests)
    (tmp_path / "softmax.py").write_text(file)
    with pytest.raises(LabError, match=said):
        adopt.run(tmp_path / "test_softmax.py", tmp_path / "softmax.py", "", tmp_path / "course")
    assert not (tmp_path / "course").exists()

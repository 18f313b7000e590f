"""A lab of a few one-line exercises: real engine, real workers, tight limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autograder.course import labfile
from autograder.course.records import Lab, Text
from autograder.reference import cases
from autograder.reference.cases import Case
from autograder.wire.messages import Tensor

CHECKS = ("test_one", "test_two", "test_three", "test_four", "test_five", "test_other", "test_side")

LAB = """
title = { en = "Doubling", zh = "加倍" }
files = ["answer.py", "side.py"]
given = ["labs.given.config"]
[limits]
cpu_seconds = 0.75
wall_seconds = 8
memory_mib = 512
"""
EXERCISE = """
[[exercise]]
id = "lab9.{0}"
file = "{1}.py"
title = {{ en = "{0}", zh = "{0}" }}
hint = {{ en = "twice", zh = "两倍" }}
"""
CHECK = """
[[exercise.check]]
name = "test_{0}"
points = {1}
family = "shape"
"""
# The first check of an exercise is what the others need, so `free` stands in front of them.
PARTS = (
    ("many", "answer", (("free", 10), *((n, 10) for n in ("one", "two", "three", "four", "five")))),
    ("other", "answer", (("other", 20),)),
    ("side", "side", (("side", 20),)),
)
FUNCTION = '''
@cases("numbers")
def test_{0}(student: Student, case: Case) -> None:
    """{0} gives twice its input.

    {0} 给出输入的两倍。
    """
    expect_close(student.call("{1}.{0}", case["x"]), case["y"], case)
'''
IMPORTS = "from autograder.checks.expect import Case, Student, cases, expect_close\n"


def right() -> dict[str, str]:
    """A hand-in that doubles wherever it is asked to."""
    names = [name for _, file, checks in PARTS for name, _ in checks if file == "answer"]
    body = "\n".join(f"def {name}(x): return 2 * x" for name in names)
    return {"answer.py": body + "\n", "side.py": "def side(x): return 2 * x\n"}


def doing(**bodies: str) -> dict[str, str]:
    """The right hand-in with these statements run first in the functions called so."""
    files = right()
    for name, body in bodies.items():
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        changed = f"def {name}(x):\n{lines}    return 2 * x\n"
        for file, text in files.items():
            files[file] = text.replace(f"def {name}(x): return 2 * x\n", changed)
    return files


def case(number: int = 0, *, hidden: bool = False) -> Case:
    """Three numbers, and twice those."""
    x = np.arange(3, dtype=np.float32) + number + 1
    kind = "hidden" if hidden else "public"
    about = Text(f"numbers from {number}", f"从 {number} 开始的数")
    tensors = {"x": Tensor.of(x), "y": Tensor.of(2 * x)}
    return Case(f"numbers-{kind}-{number}", "numbers", hidden, about, {}, tensors)


def build(folder: Path, limits: str = "") -> Lab:
    """Write the lab into ``folder`` (named like a lab) and load it."""
    toml, functions = LAB + limits, IMPORTS
    for exercise, file, checks in PARTS:
        toml += EXERCISE.format(exercise, file)
        for name, points in checks:
            toml += CHECK.format(name, points)
            functions += FUNCTION.format(name, file)
    (folder / "checks").mkdir(parents=True)
    (folder / "lab.toml").write_text(toml, encoding="utf-8")
    (folder / "checks" / "test_answer.py").write_text(functions, encoding="utf-8")
    (folder / "cases.safetensors").write_bytes(cases.dump([case()]))
    return labfile.load(folder)

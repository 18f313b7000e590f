"""What stands in a worker before student code runs: what its own lab gives, and no answer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.course.records import Lab
from autograder.grading.judge_process import Options
from tests import hand_ins
from tests.engines import warm

LABS = [labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml"))]
# In a process of its own for every lab: what given modules import, they import for student code.
LOADED = """
import importlib, json, os, sys
import torch
def loaded(names):
    reading, writing = os.pipe()
    if not os.fork():
        for name in names:
            importlib.import_module(name)
        found = sorted(name for name in sys.modules if name.startswith("labs.given."))
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        return json.load(stream)
print(json.dumps([loaded(names) for names in json.loads(sys.argv[1])]))
"""


def test_given_modules_import_only_what_their_lab_gives() -> None:
    asked = json.dumps([lab.preloaded for lab in LABS])
    done = subprocess.run(
        [sys.executable, "-c", LOADED, asked], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = dict(zip(LABS, json.loads(done.stdout), strict=True))
    assert {lab.name: set(found) - set(lab.given) for lab, found in loaded.items()} == {
        lab.name: set() for lab in LABS
    }
    assert any(loaded.values())


# Any class of a module that this process has, however it is found: by the tables that Python keeps.
FINDS = """
import torch
def classes(top):
    for one in getattr(top, "__sub" + "classes__")():
        yield one
        yield from classes(one)
found = {one.__module__ for one in classes(torch.nn.Module)}
own = sorted(name for name in found if name.split(".")[0] in ("labs", "solutions", "rehearsal"))
raise RuntimeError("found: " + " ".join(own))
"""


# What an import finds: torch looks for optional packages, too, and does without them.
PACKAGES = """
import importlib.util
names = ("torch", "numpy", "einops", "json", "pytest", "_pytest", "transformers", "msgspec")
raise RuntimeError("found: " + " ".join(filter(importlib.util.find_spec, names)))
"""
# A compiler would write files, which nobody may here.
COMPILED = """
import torch
@torch.compile
def twice(x): return 2 * x
@torch.compile(dynamic=True)
def again(x): return twice(x)
layer = torch.nn.Linear(2, 2)
layer.compile()
layer(torch.ones(1, 2))
raise RuntimeError(f"found: {int(torch.compile(again, mode='default')(torch.ones(1)))}")
"""
# What is said to one. To import it would take most of the CPU time of a check.
TOLD = """
import sys
import torch
@torch.compiler.disable
def one(x): return 2 * x
@torch.compiler.disable(recursive=False)
def two(x): return one(x)
@torch.compiler.allow_in_graph
def three(x): return two(x)
@torch.compiler.assume_constant_result
def four(): return 4
@torch.compiler.set_stance("force_eager")
def five(x): return torch.compiler.disable(fn=three)(x)
class Layer(torch.nn.Module):
    @torch.compiler.disable()
    def forward(self, x): return torch.compiler.disable(five, True)(x)
torch.compiler.reset()
eager = torch.compiler.set_stance("force_eager")
for _ in range(2):
    with eager:
        made = int(Layer()(torch.ones(1)))
raise RuntimeError(f"found: {made} {four()} {'torch._dynamo' in sys.modules}")
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a zygote")


def found_by(lab: Lab, text: str) -> set[str]:
    """The words after "found:" in what is said of a hand-in whose files all have this text."""
    with warm(lab, Options()) as engine:
        files = dict.fromkeys(lab.files, text)
        record = hand_ins.grade(engine, hand_ins.hand_in("thief", files))["thief"]
    messages = [str(result.message) for result in record.results]
    told = [text.partition("found: ")[2].split("'")[0] for text in messages if "found: " in text]
    assert told
    return {name for one in told for name in one.split()}


@linux
@pytest.mark.parametrize("lab", [lab for lab in LABS if lab.name.startswith(("lab1", "lab5"))])
def test_no_class_of_another_lab_can_be_found(lab: Lab) -> None:
    assert found_by(lab, FINDS) <= {"rehearsal", *lab.given}


@linux
def test_what_is_to_be_compiled_runs_as_it_is() -> None:
    assert found_by(LABS[0], COMPILED) == {"2"}


@linux
def test_what_is_told_a_compiler_is_told_to_none() -> None:
    assert found_by(LABS[0], TOLD) == {"2", "4", "False"}


@linux
def test_what_may_not_be_read_is_not_installed() -> None:
    assert found_by(LABS[0], PACKAGES) == {"torch", "numpy", "einops", "json"}

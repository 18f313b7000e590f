"""What a lab puts in the place of a student's part is called as the part is, by keyword, too."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from autograder.course import labfile
from autograder.course.records import Lab

LABS = [labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml"))]
PREFIX = "StandIn"


def parts_of(lab: Lab) -> Iterator[tuple[str, Any]]:
    """The classes of a lab's solution, by name."""
    folder = str(labfile.SOLUTIONS / lab.name)
    names = [file.removesuffix(".py") for file in lab.files]
    sys.path.insert(0, folder)
    try:
        for module in map(importlib.import_module, names):
            yield from ((k, v) for k, v in vars(module).items() if inspect.isclass(v))
    finally:
        sys.path.remove(folder)
        for name in names:
            del sys.modules[name]


def names_in(method: Any) -> list[str]:
    """What it takes, by name."""
    return list(inspect.signature(method).parameters)


def replaced(given: ModuleType, parts: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Every stand-in with the part that it stands for."""
    for name, stand_in in vars(given).items():
        part = name.removeprefix(PREFIX)
        for whole in (part, f"Qwen3{part}", f"RMS{part}", f"{part}ParallelLinear"):
            if name != part and whole in parts:
                yield stand_in, parts[whole]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name.partition("_")[0])
def test_a_stand_in_takes_what_its_part_takes(lab: Lab) -> None:
    parts = dict(parts_of(lab))
    found = [pair for name in lab.given for pair in replaced(importlib.import_module(name), parts)]
    assert bool(found) == (lab.name.split("_")[0] in ("lab4", "lab5"))
    for stand_in, part in found:
        forward = names_in(part.forward), names_in(stand_in.forward)
        made = names_in(part), names_in(stand_in)
        # One that only takes other things is made by a check, and not by students.
        assert forward[0] == forward[1] or len(forward[0]) != len(forward[1]), stand_in
        assert made[0] == made[1] or len(made[0]) != len(made[1]), stand_in


def test_a_loader_takes_the_names_that_the_stubs_give_it() -> None:
    (lab,) = (lab for lab in LABS if lab.name.startswith("lab5"))
    (loader,) = (part.weight_loader for name, part in parts_of(lab) if name == "QKVParallelLinear")
    names = names_in(loader)[1:]
    assert names_in(importlib.import_module("labs.given.flat").StandInModel._note)[2:] == names
    packed = importlib.import_module("labs.given.parallel").StandInPacked
    assert names_in(packed.weight_loader)[1:] == names

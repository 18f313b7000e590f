"""Answers of the right form that hold one number everywhere, or no text, earn none of the maths."""

from __future__ import annotations

import ast

from autograder.course.records import HandIn, Outcome
from tests.proof.subject import Subject, each_lab

# What says nothing about values: shapes, dtypes, names, counts, errors, what is kept and loaded.
FORM = {"shape", "dtype and contract", "accounting", "KV cache", "loading", "tensor parallel"}
# Methods that answer.
ANSWERS = (
    *("forward", "update", "encode", "decode", "push", "finish"),
    *("allocate", "references", "match", "step", "stream", "generate"),
)
WRAPPER = """

import dataclasses as _dataclasses
import inspect as _inspect
import torch as _torch


def _emptied(value):
    if isinstance(value, _torch.Tensor):
        return _torch.full_like(value, {number} if value.is_floating_point() else 0)
    if isinstance(value, (tuple, list)):
        return type(value)(map(_emptied, value))
    if isinstance(value, dict):
        return dict.fromkeys(value, 0)
    if isinstance(value, (str, bytes)):
        return value[:0]
    if _inspect.isgenerator(value):
        return iter(())
    if _dataclasses.is_dataclass(value):
        return type(value)()
    return 0 if type(value) is int else value


def _wrapped(function):
    return lambda *args, **kwargs: _emptied(function(*args, **kwargs))

"""


def emptied(text: str, number: float) -> str:
    """A solution whose functions and modules answer ``number`` everywhere."""
    names = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            names += [f"{node.name}.{name}" for name in ANSWERS if name in methods]
    return text + WRAPPER.format(number=number) + "\n".join(f"{n} = _wrapped({n})" for n in names)


@each_lab
def test_constants_earn_none_of_the_maths(subject: Subject) -> None:
    numbers = (0.0, 1.0, -0.5)
    sources = {
        str(number): {file: emptied(text, number) for file, text in subject.sources.items()}
        for number in numbers
    }
    for hand_in in subject.grade(sources).values():
        # A row of zeros beside a row of ones is no constant: two points of lab 1's padding.
        assert sum(maths(subject, hand_in).values()) <= 2, hand_in.student


def maths(subject: Subject, hand_in: HandIn) -> dict[str, int]:
    """Points of checks of values that passed."""
    passed = {r.check for r in hand_in.results if r.outcome is Outcome.PASSED}
    return {
        check.name: check.points
        for check in subject.lab.checks
        if check.name in passed and check.family not in FORM
    }

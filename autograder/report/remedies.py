"""Remedies for failures that are no mathematics, one for each kind."""

from __future__ import annotations

import re

from autograder.course.messages import render
from autograder.course.records import CheckResult, Message, Outcome

# Keys of messages, and what is wrong with a whole file, and not with one exercise of it.
OF_THE_FILE = ("syntax", "import", "import_line", "file_lost", "wrong_lab", "empty_file")
NO_MATHEMATICS = (*OF_THE_FILE, "exit", "breakpoint", "missing", "missing_near", "not_importable")
# What tells the kind: the message's key, then the type and text of an exception or what came.
_KINDS = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("weights", r"weights"),
        ("full_width", r"syntax: .*invalid (?:non-printable )?character"),
        ("indentation", r"syntax: .*(?:indent|tabs)"),
        ("unclosed", r"syntax: .*(?:never closed|unterminated|unexpected EOF|was never)"),
        ("syntax", r"syntax"),
        ("breakpoint", r"breakpoint"),
        ("nothing", r"type: None$|\w+: \w+ .*NoneType"),
        ("tuple", r"type: a? ?(?:tuple|list)"),
        ("name", r"\w+: (?:NameError|UnboundLocalError)"),
        ("attribute", r"\w+: AttributeError"),
        ("arguments", r"\w+: TypeError .*(?:argument|positional|keyword)"),
        ("dtypes", r"\w+: \w+ .*(?:same dtype|scalar type|dtype|BFloat16|Half)"),
        ("in_place", r"\w+: RuntimeError .*(?:in-place|leaf Variable)"),
        ("strides", r"\w+: \w+ .*(?:stride|contiguous)"),
        ("truth", r"\w+: \w+ .*Boolean value of Tensor"),
        ("index", r"\w+: IndexError .*index .*out of"),
        ("sizes", r"\w+: \w+ .*(?:size|shape|dimension|Dimension|einsum)"),
        ("index", r"\w+: (?:IndexError|KeyError)"),
        ("time", r"\w*timed_out"),
        ("ended", r"(?:crashed|exit|file_lost|worker_lost|rank_crashed)"),
        ("import", r"(?:import|not_importable|nothing_given)"),
        ("raised", r"exception"),
        ("shape", r"shape"),
        ("dtype", r"dtype"),
        ("written", r"input_changed"),
        ("infinite", r"not_finite"),
        ("numbers", r"(?:mismatch|value|moved|sees|chosen)"),
    )
)
_SEVERAL = re.compile(r"an? (?:tuple|list)\b")


def key_of(result: CheckResult) -> str:
    """The key of a result's message without its area; empty where it has none."""
    return result.message.key.removeprefix("check.") if result.message is not None else ""


def is_no_mathematics(result: CheckResult) -> bool:
    """Return whether the exercise's own hint would say nothing about this failure."""
    key = key_of(result)
    return (
        result.outcome not in (Outcome.FAILED, Outcome.NOT_STARTED)
        or key in NO_MATHEMATICS
        or key.startswith("intake.")
        or _kind(result) in ("nothing", "tuple")
    )


def is_specific(result: CheckResult) -> bool:
    """Return whether its remedy says more than the exercise's own hint, which comes after it."""
    key = key_of(result)
    kinds = ("shape", "dtype", "written", "infinite")
    is_of_python = key in ("exception", "exception_alone") or key.startswith("weights")
    return is_of_python or _kind(result) in kinds


def are_wrong_numbers(result: CheckResult) -> bool:
    """Return whether its remedy, to follow one number, may come after the exercise's own hint."""
    return _kind(result) == "numbers"


def remedies(result: CheckResult, language: str, debug: str) -> list[str]:
    """Sentences about what to do; ``debug`` is the command that stops in the code."""
    kind = _kind(result)
    said = [render(Message(f"remedy.{kind or 'other'}", {"debug": debug}), language)]
    if key_of(result) in ("exception", "exception_alone") and result.frames:
        said.append(render(Message("remedy.debug", {"debug": debug}), language))
    return said


def _kind(result: CheckResult) -> str:
    values = result.message.values if result.message is not None else {}
    found = (values.get(name) for name in ("type", "text", "got"))
    told = [str(one.get("en") if isinstance(one, dict) else one) for one in found if one]
    line = f"{key_of(result)}: {' '.join(told)}"
    kind = next((name for name, pattern in _KINDS if pattern.match(line)), "")
    want = values.get("want")
    wanted = str(want.get("en") if isinstance(want, dict) else want)
    # Several things where one tensor should be: not a list that is too long or too short.
    return "" if kind == "tuple" and _SEVERAL.match(wanted) else kind

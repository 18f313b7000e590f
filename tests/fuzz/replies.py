"""Replies of a hostile worker to the real checks of all labs, graded by the real runner.

Whatever a worker replies is the student's: an honest outcome with a sentence that every report
can show, never the grader's fault, and never a pass that the reply did not earn.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.course.messages import render
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import (
    LANGUAGES,
    CheckResult,
    ClassRecord,
    HandIn,
    Isolation,
    Lab,
    Outcome,
)
from autograder.judge.runner import Runner
from autograder.report import student_pages, write
from autograder.report.class_file import from_json, to_json
from autograder.report.table import class_table
from autograder.sandbox.recording import KeepingTransport, KeptTransport
from autograder.wire.frames import WireError
from autograder.wire.messages import Tensor, pack, unpack
from tests.fuzz import messages
from tests.fuzz.changes import change_tree, noise, odd
from tests.fuzz.earned import drawn, graded, named, tensor, unearned, worker_of
from tests.fuzz.profile import Draw
from tests.fuzz.right_replies import SingleCheck, single_checks
from tests.fuzz.scratch import folder

UNREADABLE = "which this release has no words for"  # a message that no report can show
MAX_PLAIN = 64 << 10  # characters of one result as JSON
OUTCOMES = {Outcome.PASSED, Outcome.FAILED, Outcome.CRASHED, Outcome.NOT_STARTED, Outcome.SKIPPED}
ERRORS: tuple[dict[str, Any], ...] = (
    {"stage": "call", "type": "ValueError", "kinds": ["Exception"], "text": "no", "todo": None,
     "frames": [["attention.py", 3, "forward", "return q @ k"], ["mlp.py", 9, "f", "x"]]},
    {"stage": "syntax", "type": "SyntaxError", "text": "bad", "todo": None,
     "frames": [["mlp.py", 2, "", "x ="]]},
    {"stage": "weights", "type": "_WeightsError", "text": "no fit", "todo": None, "frames": [],
     "lacking": ["a.weight"], "extra": ["b.weight"], "shapes": [["c.weight", "[2]", "[3]"]]},
    {"stage": "new", "type": "NotImplementedError", "text": "TODO lab2.rotate_half: x",
     "todo": "lab2.rotate_half", "frames": []},
    {"stage": "import", "type": "SystemExit", "text": "0", "todo": None, "frames": []},
    {"stage": "call", "type": "AttributeError", "todo": None, "frames": [],
     "text": "module 'attention' has no attribute 'repeat_kv'"},
    {"stage": "call", "type": "ModuleNotFoundError", "text": "No module named 'x'", "todo": None},
)  # fmt: skip


@dataclass
class Reply:
    """A reply in its parts."""

    tree: dict[str, Any]
    tensors: dict[str, Tensor]


def _error(reply: Reply, dice: random.Random) -> None:
    """An error report, or a field of it."""
    if "error" not in reply.tree or dice.randrange(3) == 0:
        reply.tree["error"] = json.loads(json.dumps(dice.choice(ERRORS)))
        if dice.randrange(2):
            reply.tree["values"] = []
    if dice.randrange(5):
        change_tree(reply.tree["error"], dice)
    else:
        reply.tree["error"] = odd(dice)


def _tree(reply: Reply, dice: random.Random) -> None:
    """A field of the tree; the keys of the protocol, too."""
    change_tree(reply.tree, dice)


def _node(reply: Reply, dice: random.Random) -> None:
    """A result in a form of the protocol, well or badly made."""
    values = reply.tree.get("values")
    name = next(iter(reply.tensors), "r0")
    forms = (
        None, True, 7, 0.5, "text", odd(dice), {"$t": name}, {"$t": "r77"}, {"$t": {}},
        {"$tuple": []}, {"$tuple": [{"$t": name}] * 2}, {"$tuple": "ab"}, {"$tuple": 3},
        {"$list": [{"$t": name}] * 3}, {"$list": [{"$t": name}, None, {}]}, {"$list": None},
        {"$list": [{"$t": name}, {"$list": [None]}, {"$dict": []}]}, {"$list": [{"$t": name}, {}]},
        {"$dict": [["total", 1]]}, {"$dict": [[{}, 1]]}, {"$dict": {"ab": 1}}, {"$dict": [1]},
        {"$other": odd(dice)}, {"$h": 1}, [], [{"$t": name}] * 2,
    )  # fmt: skip
    if isinstance(values, list) and values:
        values[dice.randrange(len(values))] = dice.choice(forms)
    else:
        reply.tree["values"] = [dice.choice(forms)] * dice.randrange(5)


def _tensor(reply: Reply, dice: random.Random) -> None:
    """A tensor in itself well formed: other numbers, another dtype or shape."""
    if not reply.tensors:
        return _node(reply, dice)
    name = dice.choice(list(reply.tensors))
    for one in list(reply.tensors) if dice.randrange(6) == 0 else [name]:
        reply.tensors[one] = _other(reply.tensors[one], dice)
    return None


def _other(old: Tensor, dice: random.Random) -> Tensor:
    if not old.data:  # its shape may be one that no array has
        return tensor(np.float64(dice.random()), old.dtype)
    array, action = old.array, dice.randrange(11)
    if action == 0:
        return drawn(old, dice.choice((0.0, 1e-6, 1.0, 1e30)))
    if action == 1:  # their squares overflow
        return drawn(old, 1e200, "float64")
    if action == 2:
        numbers = (np.nan, np.inf, -np.inf, 0.0, 1e-310, 1.7e308, -1.0)
        return tensor(np.full(old.shape, dice.choice(numbers)), dice.choice(("float64", "float32")))
    if action == 3:
        spoilt = array.astype(np.float64).reshape(-1)
        spoilt[dice.randrange(array.size)] = dice.choice((np.nan, np.inf, 1e300, 0.0))
        return tensor(spoilt.reshape(array.shape), dice.choice((old.dtype, "float64")))
    if action == 4:  # the same numbers
        return tensor(np.nan_to_num(array.astype(np.float64)), dice.choice(messages.DTYPES))
    if action == 5:  # the same bytes
        dtype = dice.choice(messages.DTYPES)
        size = tensor(np.zeros(1), dtype).array.itemsize // (2 if dtype == "bfloat16" else 1)
        whole = len(old.data) // size * size
        return Tensor(dtype, (whole // size,), bytes(old.data)[:whole])
    if action == 6:  # the same number of values
        shapes = [(array.size,), (1, *old.shape), (*old.shape, 1), old.shape[::-1]]
        return Tensor(old.dtype, dice.choice(shapes), old.data)
    if action == 7:
        sides = [dice.choice((0, 1, 2, 1 << 20, (1 << 31) - 1)) for _ in range(dice.randrange(6))]
        return Tensor(old.dtype, (*sides, 0), b"")
    if action == 8:
        return tensor(array.reshape(-1)[: dice.randrange(2)], old.dtype)
    if action == 9:
        return tensor(np.float64(dice.random()), old.dtype)
    data = bytearray(old.data)
    for _ in range(8):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return Tensor(old.dtype, old.shape, bytes(data))


def changed(blob: bytes, dice: tuple[random.Random, ...]) -> bytes:
    """A right reply with one change per source of choices."""
    reply, late = Reply(*unpack(blob)), []
    for one in dice:
        change = one.choice((_error, _tree, _node, _node, _tensor, _tensor, _tensor, None))
        if change is None:
            late.append(one)
        else:
            change(reply, one)
    tensors = reply.tensors if dice[0].random() < 0.1 else named(reply.tree, reply.tensors)
    blob = pack(reply.tree, tensors)
    return messages.changed(blob, tuple(late)) if late else blob


def reshaped(single: SingleCheck) -> Iterator[bytes]:
    """A right worker's last reply with one tensor in every shape near its own, empty ones too."""
    tree, tensors = unpack(single.replies[-1])
    for name, old in tensors.items():
        count = max(1, math.prod(old.shape))
        shapes = {(), (0,), old.shape[::-1]}
        for side in (0, 1):
            shapes |= {(side, *old.shape), (*old.shape, side)}
            shapes |= {
                (*old.shape[:axis], side, *old.shape[axis + 1 :]) for axis in range(len(old.shape))
            }
        for shape in sorted(shapes):
            if (size := math.prod(shape)) <= count:
                data = bytes(old.data)[: size * (len(old.data) // count)]
                yield pack(tree, tensors | {name: Tensor(old.dtype, shape, data)})


def run(draw: Draw) -> None:
    """Grade one reply of a worker to one check."""
    single = single_checks()[draw.base % len(single_checks())]
    hidden = draw.base // len(single_checks()) % 4 == 0
    with np.errstate(all="ignore"):  # casts overflow here on purpose; a warning tells nothing
        reply = {
            "valid": lambda: single.replies[-1],
            "noise": lambda: noise(random.Random(draw.base)),
            "changed": lambda: changed(single.replies[-1], draw.dice),
        }[draw.kind]()
        result = graded(single, reply, hidden=hidden)
        assert result.outcome in OUTCOMES, result
        assert result.outcome is Outcome.PASSED or draw.kind != "valid"
        if result.outcome is Outcome.PASSED:
            assert not (why := unearned(single, reply)), f"{single.check.name}: {why}"
        if draw.base // len(single_checks()) % 3 == 0:
            _kept(single, reply, result, hidden=hidden)
    _understood(result, reply)
    if hidden and result.outcome is not Outcome.PASSED:
        assert result.hidden and result.message is not None and not result.message.values
        assert not (result.prints or result.frames or result.case)
    shown(result, single.lab)


def _kept(single: SingleCheck, reply: bytes, result: CheckResult, *, hidden: bool) -> None:
    """What was written down of it gives the same result when it is asked again."""
    path = folder("kept") / "reply"
    keeping = KeepingTransport(worker_of(single, reply), path, {"files": {}})
    plan = single.plan(hidden=hidden)
    first = Runner(plan, keeping).run({}, set())
    keeping.save()
    again = Runner(plan, KeptTransport(path)).run({}, set())
    for (one,) in (first, again):
        assert repr(one) == repr(result)  # not ==, since NaN is not itself


def _understood(result: CheckResult, reply: bytes) -> None:
    """A reply that is no message is a crash."""
    try:
        unpack(reply)
    except WireError:
        assert result.outcome is Outcome.CRASHED


def shown(result: CheckResult, lab: Lab) -> None:
    """The result travels as JSON, and stands in every report in both languages."""
    text = json.dumps(to_plain(result), allow_nan=False)
    assert len(text) < MAX_PLAIN
    again = from_plain(CheckResult, json.loads(text))
    assert json.dumps(to_plain(again), allow_nan=False) == text
    if result.message is not None:
        assert all(render(result.message, language).strip() for language in LANGUAGES)
    hand_in = HandIn("student", (again,))
    record = ClassRecord(lab, Isolation("weak", (), "fork"), {"torch": "2"}, (hand_in,))
    whole = json.dumps(to_json(record), allow_nan=False)
    assert json.dumps(to_json(from_json(json.loads(whole))), allow_nan=False) == whole
    for language in LANGUAGES:
        for report in (student_pages.student_markdown, student_pages.student_html):
            page = report(record, hand_in, language)
            page.encode()  # no lone surrogate is left
            assert UNREADABLE not in page
        class_table(record, language).encode()
    write.scores(record).encode()

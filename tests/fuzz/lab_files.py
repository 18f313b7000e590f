"""``lab.toml`` of lab 2 (but for one of its files) with slips in it, read by the reader of labs."""

from __future__ import annotations

import json
import math
import random
import tomllib
from collections.abc import Callable
from functools import cache
from typing import Any
from unittest.mock import patch

from autograder import intake
from autograder.course import labfile
from autograder.course.labfile import LabError
from autograder.course.records import FAMILIES, LANGUAGES, ClassRecord, HandIn, Isolation, Lab
from autograder.judge import marks
from autograder.report import student_pages
from autograder.report.class_file import from_json, to_json
from tests.fuzz import toml
from tests.fuzz.changes import change_bytes, change_tree, copied, noise, odd, places
from tests.fuzz.profile import Draw
from tests.fuzz.scratch import folder

SOURCE = labfile.find_lab("2")
TEXT = (SOURCE / "lab.toml").read_text(encoding="utf-8")
FILE = "mlp.py"  # the other one holds four fifths of the checks, and nothing of another kind


def _of_one_file() -> dict[str, Any]:
    tree = tomllib.loads(TEXT)
    tree["files"] = [FILE]
    tree["exercise"] = [one for one in tree["exercise"] if one["file"] == FILE]
    checks = [check for one in tree["exercise"] for check in one["check"]]
    checks[0]["points"] += 100 - sum(check["points"] for check in checks)
    return tree


TREE = _of_one_file()
# Found once: parsing all checks again would be most of the work.
DOCSTRINGS = cache(labfile._docstrings)(SOURCE / "checks")
LONG = ("9" * 5000, "[" * 3000, "{a=" * 3000, '"' * 7, "1979-99-99", "0x_1", "1e999", "-inf")


def _check(tree: Any, dice: random.Random) -> dict[str, Any]:
    """Some check's table."""
    found = [h[k] for h, k in places(tree) if isinstance(h[k], dict) and "points" in h[k]]
    return dice.choice(found) if found else {}


def _anything(tree: Any, dice: random.Random) -> None:
    change_tree(tree, dice)


def _top(tree: Any, dice: random.Random) -> None:
    keys = ("title", "files", "given", "forbidden", "limits", "exercise", "x")
    tree[dice.choice(keys)] = odd(dice)


def _lists(tree: Any, dice: random.Random) -> None:
    forms = (["a"], ["a.py"] * 2, [""], ["../a.py"], ["a.py", 1], "a.py", [], ["a b.py", "x.y.z"])
    tree[dice.choice(("files", "given", "forbidden"))] = list(dice.choice(forms))


def _limits(tree: Any, dice: random.Random) -> None:
    name = dice.choice(("cpu_seconds", "wall_seconds", "memory_mib", "lost_workers", "points"))
    number = dice.choice((0, -1, 1.5, 10**30, math.nan, math.inf, True, "2", 1e-320, 10**4299))
    tree["limits"] = {name: number}


def _points(tree: Any, dice: random.Random) -> None:
    """Moved from one check to another, or to nowhere."""
    one, other = _check(tree, dice), _check(tree, dice)
    number = dice.choice((1, -1, 101, 10**30, 0.5))
    try:
        one["points"] += number
        other["points"] -= number if dice.randrange(2) else 0
    except (KeyError, TypeError):
        one["points"] = number


def _names(tree: Any, dice: random.Random) -> None:
    """A name twice, or of no test."""
    one, other = _check(tree, dice), _check(tree, dice)
    one["name"] = dice.choice((other.get("name"), "test_nothing", "", 7, ["test_mlp_runs"]))


def _needs(tree: Any, dice: random.Random) -> None:
    """On itself, on a later one, in a circle, on nothing."""
    one, other = _check(tree, dice), _check(tree, dice)
    one["needs"] = [dice.choice((one.get("name"), other.get("name"), "test_nothing", 1))]
    if dice.randrange(2):
        other["needs"] = [one.get("name")]


def _flags(tree: Any, dice: random.Random) -> None:
    field = dice.choice(("fresh", "optional", "family"))
    _check(tree, dice)[field] = dice.choice((True, False, 1, "true", "SHAPE", *FAMILIES))


def _languages(tree: Any, dice: random.Random) -> None:
    texts = [h for h, k in places(tree) if k in LANGUAGES and isinstance(h, dict)]
    if texts:
        text = dice.choice(texts)
        text[dice.choice(("fr", "EN", "zh-CN", ""))] = text.pop("zh", "")


CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    _anything, _anything, _top, _lists, _limits, _points, _names, _needs, _flags, _languages,
)  # fmt: skip


def _raw(data: bytes, dice: random.Random) -> bytes:
    """A change of the text: bytes, or a value that is hard to read."""
    if dice.randrange(3):
        return change_bytes(data, dice)
    at = data.find(b"= ", dice.randrange(len(data) + 1)) + 2
    return data[:at] + dice.choice(LONG).encode() + data[at:]


def changed(dice: tuple[random.Random, ...]) -> bytes:
    """The file with one change per source of choices: of its data, or of its bytes."""
    tree, late = copied(TREE), []
    for one in dice:
        if one.randrange(4) == 0:
            late.append(one)
        else:
            one.choice(CHANGES)(tree, one)
    data = toml.dumps(tree).encode() if len(late) < len(dice) else TEXT.encode()
    for one in late:
        data = _raw(data, one)
    return data


def run(draw: Draw) -> None:
    """Either a `LabError` that names the file and the place, or a lab that can be used."""
    data = {
        "valid": lambda: TEXT.encode() if draw.base % 2 else toml.dumps(TREE).encode(),
        "noise": lambda: noise(random.Random(draw.base)),
        "changed": lambda: changed(draw.dice),
    }[draw.kind]()
    place = folder("lab2_fuzzed")
    path = place / "lab.toml"
    path.write_bytes(data)
    try:
        with patch.object(labfile, "_docstrings", return_value=DOCSTRINGS):
            lab = labfile.load(place)
    except LabError as error:
        assert draw.kind != "valid"
        assert str(error).startswith(f"{path}: ") and len(str(error)) > len(f"{path}: ")
    else:
        usable(lab)


def usable(lab: Lab) -> None:
    """Whatever the rest of the program does with a lab can be done with it."""
    assert lab.points == 100 and all(check.points >= 0 for check in lab.checks)
    names = [check.name for check in lab.checks]
    assert len(names) == len(set(names)) and set(names) <= DOCSTRINGS.keys()
    for check in lab.checks:
        assert set(check.needs) <= set(names[: names.index(check.name)])
    limits = lab.limits
    assert all(0 < number < 1 << 40 for number in vars(limits).values())
    assert isinstance(limits.memory_mib, int) and isinstance(limits.lost_workers, int)
    marks.forbidden(lab, {"a.py": "x.y(z)"}, {"aten::mul"})
    submission = intake.read(intake.Entry("student", folder("empty")), lab)
    assert "" in submission.problems
    hand_in = HandIn("student", ())
    record = ClassRecord(lab, Isolation("weak", (), "fork"), {}, (hand_in,))
    assert to_json(from_json(json.loads(json.dumps(to_json(record))))) == to_json(record)
    student_pages.student_markdown(record, hand_in, "zh").encode()

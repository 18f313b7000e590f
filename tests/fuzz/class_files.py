"""``class.json`` as somebody's program or editor left it, read and rendered again."""

from __future__ import annotations

import json
import random
from typing import Any

from autograder.course.late import Extension, Lateness, LateRules
from autograder.course.records import (
    LANGUAGES,
    Certainty,
    CheckResult,
    ClassRecord,
    Finding,
    Frame,
    HandIn,
    Isolation,
    Message,
    Misconception,
    Origin,
    Outcome,
    Override,
    Student,
    Text,
)
from autograder.report import class_mistakes, student_pages, write
from autograder.report.class_file import from_json, hand_in_from_plain, to_json
from autograder.report.class_mistakes import survey
from autograder.report.table import class_table
from tests.fuzz.changes import change_bytes, change_tree, copied, odd, places
from tests.fuzz.profile import Draw
from tests.fuzz.right_replies import LAB

DUE = "2025-12-30T00:00:00+08:00"
CASE = {"en": "a case", "zh": "一个用例"}
VALUES = {
    "case": CASE, "what": {"en": "it", "zh": "它"}, "got": 0.5, "want": 2, "error": float("inf"),
    "limit": 1e-5, "place": "[0, 1]", "text": ("tuple", [None, True]), "type": {1: 2},
}  # fmt: skip
KEYS = ("check.mismatch", "check.value", "check.exception", "check.hidden", "check.constant")
MISTAKE = Misconception(  # type: ignore[call-arg]
    "swapped", "RoPE", *(Text(f"{what} {{0}}", f"{what}。") for what in ("a", "b", "c", "d")), "x"
)
FINDINGS = (
    Finding(("lab2.rotate_half", "gone"), Certainty.NAMED, (MISTAKE,), checks=("gone",)),
    Finding(("lab2.rotate_half",), Certainty.LOOKS_LIKE, (MISTAKE, MISTAKE), either=True),
    Finding(("lab2.attention",), Certainty.UNKNOWN, known=(Message("check.value", VALUES),)),
)


def _record() -> ClassRecord:
    """A class of three, with something in every field."""
    lab = LAB.exercises[:2]
    checks = [check for exercise in lab for check in exercise.checks]
    results = tuple(
        CheckResult(
            check.name,
            outcome,
            None if outcome is Outcome.PASSED else Message(KEYS[place % len(KEYS)], VALUES),
            hidden=place % 4 == 3,
            case="case-1",
            prints="printed",
            frames=(Frame("attention.py", 3, "forward", "return x"),),
        )
        for place, (check, outcome) in enumerate(zip(checks, list(Outcome) * 9, strict=False))
    )
    li = Student("li", "李", "li@example.org")
    origin = Origin("li_1", (li,), "2026-01-01T00:00:00+08:00", True, 2)
    renamed = Message("intake.renamed", {"given": "a b", "used": "a_b"})
    override = Override("li", checks[0].name, 1, "looked at it", "me")
    hand_ins = (
        HandIn(
            "li",
            results,
            (renamed,),
            (renamed,),
            {"mlp.py": "ab"},
            origin,
            (override,),
            FINDINGS,
            Lateness(DUE, False, 2, 20),
        ),
        HandIn("wu", results[::-1]),
        HandIn("zu", ()),
    )
    part = ClassRecord(
        lab=LAB,
        isolation=Isolation("strong", ("rlimits",), "fork"),
        versions={"torch": "2"},
        hand_ins=hand_ins,
        hidden_cases=3,
        public_cases=4,
        missing=(li,),
        late_rules=LateRules(DUE, 15, 10, 5, "+08:00", (Extension("li", DUE, "ill"),)),
    )
    tree = to_json(part)
    tree["lab"]["exercises"] = tree["lab"]["exercises"][:2]
    return from_json(json.loads(json.dumps(tree)))


TREE = json.loads(json.dumps(to_json(_record())))
FORMS = (
    {"$float": "nan"}, {"$float": "x"}, {"$float": 10**400}, {"$float": []}, {"$tuple": 3},
    {"$tuple": [[]]}, {"$pairs": [[[], 1]]}, {"$pairs": [1]}, {"$pairs": {"ab": 1}}, 10**400, None,
)  # fmt: skip


def _value(tree: Any, dice: random.Random) -> None:
    """A value of some message."""
    found = [h["values"] for h, k in places(tree) if k == "values" and isinstance(h[k], dict)]
    if found:
        values = dice.choice(found)
        values[dice.choice([*values, "self", "x"])] = dice.choice((*FORMS, odd(dice)))


def _field(tree: Any, dice: random.Random) -> None:
    """A field that is close to the top."""
    holder = tree
    for _ in range(dice.choice((1, 1, 2, 3))):
        inner = list(holder.values() if isinstance(holder, dict) else holder)
        inner = [one for one in inner if isinstance(one, (dict, list)) and one]
        holder = dice.choice(inner) if inner else holder
    if holder:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        holder[dice.choice(keys)] = odd(dice)


def changed(dice: tuple[random.Random, ...]) -> bytes:
    """The file with one change per source of choices: of its data, or of its bytes."""
    tree, late = copied(TREE), []
    for one in dice:
        change = one.choice((change_tree, change_tree, _value, _value, _field, None))
        if change is None:
            late.append(one)
        else:
            change(tree, one)
    data = json.dumps(tree).encode()
    for one in late:
        data = change_bytes(data, one)
    return data


def run(draw: Draw) -> None:
    """Either an error that names the file and the place, or a class that every report shows."""
    data = {
        "valid": lambda: json.dumps(TREE).encode(),
        "noise": lambda: json.dumps(odd(random.Random(draw.base))).encode(),
        "changed": lambda: changed(draw.dice),
    }[draw.kind]()
    try:
        tree = json.loads(data)
    except ValueError:  # what is no JSON at all is named by whoever opens the file
        assert draw.kind != "valid"
        return
    try:
        record = from_json(tree)
    except ValueError as error:
        assert draw.kind != "valid"
        assert str(error).startswith("class.json: ") and len(str(error)) < 500
    else:
        rendered(record)
    entries = tree.get("hand_ins") if isinstance(tree, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        try:
            hand_in_from_plain(entry)
        except (LookupError, TypeError, ValueError, AttributeError):
            assert draw.kind != "valid"


def rendered(record: ClassRecord) -> None:
    """Every report of the class, in both languages."""
    whole = json.dumps(to_json(record), allow_nan=False)
    assert json.dumps(to_json(from_json(json.loads(whole))), allow_nan=False) == whole
    write.scores(record).encode()
    for language in LANGUAGES:
        class_table(record, language).encode()
        "".join(class_mistakes.lines(survey(record), language)).encode()
        class_mistakes.markdown(survey(record), language).encode()
        class_mistakes.table(survey(record), language).encode()
    for hand_in in record.hand_ins[:1]:
        for language in LANGUAGES:
            assert student_pages.student_markdown(record, hand_in, language)
            assert student_pages.student_html(record, hand_in, language)

"""The rules about late hand-ins that a class is graded by, and what is left of them for later."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from autograder.course import course_file
from autograder.course.atomic import write_atomic
from autograder.course.late import LateRules
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import Lab
from autograder.intake import extensions
from autograder.intake.people import Directory

NAME = ".late_rules.json"


def read(path: Path, lab: Lab) -> LateRules:
    """The rules of a course file for ``lab``, extensions among them.

    Raises:
        CourseError: the file cannot be used, or does not say when the lab is due.
        ExtensionError: its extensions cannot be used.
    """
    course = course_file.read(path)
    rules = course.of(lab.name)
    if course.extensions is None:
        return rules
    due, offset = rules.due, rules.offset
    return replace(rules, extensions=extensions.read(course.extensions, lab.name, due, offset))


def resolved(rules: LateRules | None, everybody: Directory) -> LateRules | None:
    """The rules with extensions under ids and emails where the file has display names.

    Raises:
        IdentityError: a name fits several.
    """
    if rules is None:
        return None
    own = tuple(
        replace(one, student=everybody.key_of(one.student, "extensions"))
        for one in rules.extensions
    )
    return replace(rules, extensions=own)


def keep(out: Path, rules: LateRules | None) -> None:
    """Write the rules down, so that ``--resume`` goes on by them even without ``--course``."""
    if rules is None:
        (out / NAME).unlink(missing_ok=True)
    else:
        write_atomic(out / NAME, json.dumps(to_plain(rules), ensure_ascii=False))


def kept(out: Path) -> LateRules | None:
    """The rules that an interrupted run went by; None where it had none.

    Raises:
        ValueError: they are damaged; the text names the file and the mend.
    """
    path = out / NAME
    try:
        return from_plain(LateRules, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: damaged; give --course again") from None

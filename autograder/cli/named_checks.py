"""The checks that ``K=`` (``-k``) asks for, by the words of exercises' and checks' names."""

from __future__ import annotations

import re
from difflib import get_close_matches

from autograder.course import labfile
from autograder.course.labfile import LabError
from autograder.course.messages import render
from autograder.course.records import Lab, Message
from autograder.report.view import short


def chosen_checks(lab: Lab, match: str) -> tuple[str, ...]:
    """Names of the checks that ``match`` asks for; all for an empty one.

    Case does not matter, nor whether words are joined by ``_``, ``-``, a dot or a blank. The name
    of an exercise or a check means it alone; else each name that holds these words, the last of
    which may be cut short; else each exercise whose title does.

    Raises:
        LabError: nothing goes by that name (says what is near, and lists the exercises).
    """
    asked = _joined(match)
    names = {e.id: (_joined(e.id), _joined(short(e.id))) for e in lab.exercises}
    names |= {c.name: (_joined(c.name), _joined(c.name.removeprefix("test_"))) for c in lab.checks}
    titles = {e.id: (_joined(e.title.en), _joined(e.title.zh)) for e in lab.exercises}
    exercises = [e.id for e in lab.exercises]
    exact = [name for name, own in names.items() if asked in own]
    # An exercise and one of its checks may share a name: then the exercise is meant.
    found = set([name for name in exact if name in exercises] or exact)
    for table in (names, titles):
        found = found or {n for n, own in table.items() if any(_holds(one, asked) for one in own)}
    if not match:
        found = set(exercises)
    wanted = {c.name for e in lab.exercises for c in e.checks if {e.id, c.name} & found}
    if not wanted:
        en, zh = _near(lab, match)
        known = ", ".join(exercises)
        raise LabError(
            f"K={match}: no exercise or check is named so;{en} exercises: {known}",
            f"K={match}：没有这样命名的练习或检查；{zh}练习有：{known}",
        )
    return tuple(check.name for check in lab.checks if check.name in wanted)


def meaning(lab: Lab, match: str, chosen: tuple[str, ...], language: str) -> str:
    """A line that says what ``match`` was taken for; empty where it is an exercise's own name."""
    if not match or match in [name for e in lab.exercises for name in (e.id, short(e.id))]:
        return ""
    names = []
    for exercise in lab.exercises:
        own = [check.name for check in exercise.checks if check.name in chosen]
        names += [short(exercise.id)] if len(own) == len(exercise.checks) else own
    return render(Message("board.matched", {"match": match, "names": ", ".join(names)}), language)


def lab_of(match: str) -> str:
    """The lab that ``match`` means where none is given.

    Raises:
        LabError: none has such an exercise or check, or several have.
    """
    labs = [labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml"))]
    found, near = [], ("", "")
    for lab in labs:
        try:
            chosen_checks(lab, match)
            found.append(lab.name)
        except LabError:
            near = near if near[0] else _near(lab, match)
    if len(found) != 1:
        names = ", ".join(found)
        where = f"these labs have one: {names}" if found else f"no lab has one;{near[0]}"
        zh = f"这些实验有：{names}" if found else f"没有实验有它；{near[1]}"
        raise LabError(
            f"K={match}: say the lab with LAB= (--lab); {where.rstrip(';')}",
            f"K={match}：请用 LAB=（--lab）指明实验；{zh.rstrip('；')}",
        )
    return found[0]


def _joined(text: str) -> str:
    return "_".join(re.findall(r"[^\W_]+", text.casefold()))


def _holds(name: str, asked: str) -> bool:
    """Return whether a name holds these words; those of Chinese stand without a gap."""
    return bool(asked) and (f"_{asked}" in f"_{name}" or (not asked.isascii() and asked in name))


def _near(lab: Lab, match: str) -> tuple[str, str]:
    """Return what may have been meant, in English and Chinese; empty where nothing is near."""
    names = [short(exercise.id) for exercise in lab.exercises]
    names += [check.name.removeprefix("test_") for check in lab.checks]
    by_word = {word: name for name in reversed(names) for word in (*name.split("_"), name)}
    near = get_close_matches(_joined(match), [_joined(word) for word in by_word], n=3, cutoff=0.7)
    said = list(dict.fromkeys(by_word.get(word, word) for word in near))
    if not said:
        return "", ""
    return f" did you mean {', '.join(said)}?", f"你是想写 {'、'.join(said)} 吗？"
